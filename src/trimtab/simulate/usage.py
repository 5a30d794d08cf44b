"""What pods really use, as a metrics server would tell: by default a part of what they request."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import LabelSelector
from trimtab.decide.pods.demand import Amounts, demand

USUAL_PART = 0.5
"""Of what it requests, a pod uses so much when nobody says otherwise."""


class Load(NamedTuple):
    """How much the pods it selects use, for as long as it lasts: absolute, or a part of their requests."""

    name: str
    namespace: str = ""
    selector: LabelSelector = LabelSelector()
    amounts: Mapping[str, int] = {}
    """CPU in thousandths, memory in bytes."""
    part: float | None = None

    def bears_on(self, pod: Pod) -> bool:
        return self.namespace in ("", pod.metadata.namespace) and self.selector.matches(pod.metadata.labels)


class Usage:
    """The loads of one cluster; the last one set that bears on a pod counts."""

    def __init__(self) -> None:
        self._loads: dict[str, Load] = {}

    def set(self, load: Load) -> None:
        self._loads.pop(load.name, None)
        self._loads[load.name] = load

    def clear(self, name: str) -> None:
        self._loads.pop(name, None)

    def of(self, pod: Pod) -> Amounts:
        """What the pod uses now: CPU in thousandths, memory in bytes."""
        if pod.status.phase != "Running":
            return {}
        requests = demand(pod).requests
        load = next((one for one in reversed(self._loads.values()) if one.bears_on(pod)), None)
        part = USUAL_PART if load is None or load.part is None else load.part
        used = {name: int(requests.get(name, 0) * part) for name in ("cpu", "memory")}
        return {**used, **load.amounts} if load else used

    def total(self, pods: Iterable[Pod]) -> Amounts:
        """What these pods use together: the usage of a node."""
        sums: Amounts = {"cpu": 0, "memory": 0}
        for pod in pods:
            for name, amount in self.of(pod).items():
                sums[name] = sums.get(name, 0) + amount
        return sums
