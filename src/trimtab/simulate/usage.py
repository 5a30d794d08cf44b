"""Simulated resource usage of pods, as a metrics server reports it: by default a fraction of their requests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import LabelSelector
from trimtab.decide.pods.fit.requests import Amounts, pod_resources_of

FULL = 100.0
USUAL_PART = 0.5
"""Fraction of its requests that a pod uses by default."""


class Load(NamedTuple):
    """The usage of the pods it selects, while it is set: absolute, or a fraction of their requests."""

    name: str
    namespace: str = ""
    selector: LabelSelector = LabelSelector()
    amounts: Mapping[str, int] = {}
    """CPU in millicores, memory in bytes."""
    part: float | None = None

    def bears_on(self, pod: Pod) -> bool:
        return self.namespace in ("", pod.metadata.namespace) and self.selector.matches(pod.metadata.labels)


class Usage:
    """The loads of one cluster; of those that apply to a pod, the one set last counts."""

    def __init__(self) -> None:
        self._loads: dict[str, Load] = {}

    def set(self, load: Load) -> None:
        self._loads.pop(load.name, None)
        self._loads[load.name] = load

    def clear(self, name: str) -> None:
        self._loads.pop(name, None)

    def of(self, pod: Pod) -> Amounts:
        """The current usage of the pod: CPU in millicores, memory in bytes."""
        if pod.status.phase != "Running":
            return {}
        requests = pod_resources_of(pod).requests
        load = next((one for one in reversed(self._loads.values()) if one.bears_on(pod)), None)
        part = USUAL_PART if load is None or load.part is None else load.part
        used = {name: int(requests.get(name, 0) * part) for name in ("cpu", "memory")}
        return {**used, **load.amounts} if load else used

    @property
    def loaded(self) -> bool:
        """Whether any load is set."""
        return bool(self._loads)

    def shares(self, pods: Sequence[Pod], room: Amounts) -> list[Amounts]:
        """The usage of pods that share a node: if they want more CPU than it has, each gets the same fraction."""
        wanted = [self.of(pod) for pod in pods]
        total = sum(one.get("cpu", 0) for one in wanted)
        part = min(1.0, room.get("cpu", 0) / total) if total else 1.0
        return [one | {"cpu": int(part * one.get("cpu", 0))} for one in wanted]

    def waiting(self, pods: Iterable[Pod], room: Amounts) -> float:
        """Percentage of the wanted CPU that the pods of a node do not get."""
        wanted = sum(self.of(pod).get("cpu", 0) for pod in pods)
        return FULL * max(0, wanted - room.get("cpu", 0)) / wanted if wanted else 0.0
