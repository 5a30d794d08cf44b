"""Simulated resource usage of pods, as a metrics server reports it: by default a fraction of their requests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import LabelSelector
from trimtab.decide.pods.fit.requests import Amounts, pod_resources_of

PERCENT = 100.0
DEFAULT_USAGE_FRACTION = 0.5
"""Fraction of its requests that a pod uses by default."""


class PodLoad(NamedTuple):
    """The usage of the pods it selects, while it is set: absolute, or a fraction of their requests."""

    name: str
    namespace: str = ""
    selector: LabelSelector = LabelSelector()
    amounts: Mapping[str, int] = {}
    """CPU in millicores, memory in bytes."""
    fraction: float | None = None

    def applies_to(self, pod: Pod) -> bool:
        return self.namespace in ("", pod.metadata.namespace) and self.selector.matches(pod.metadata.labels)


class SimulatedUsage:
    """The loads of one cluster; of those that apply to a pod, the one set last counts."""

    def __init__(self) -> None:
        self._loads: dict[str, PodLoad] = {}

    def set(self, load: PodLoad) -> None:
        self._loads.pop(load.name, None)
        self._loads[load.name] = load

    def clear(self, name: str) -> None:
        self._loads.pop(name, None)

    def of(self, pod: Pod) -> Amounts:
        """The current usage of the pod: CPU in millicores, memory in bytes."""
        if pod.status.phase != "Running":
            return {}
        requests = pod_resources_of(pod).requests
        load = next((one for one in reversed(self._loads.values()) if one.applies_to(pod)), None)
        part = DEFAULT_USAGE_FRACTION if load is None or load.fraction is None else load.fraction
        used = {name: int(requests.get(name, 0) * part) for name in ("cpu", "memory")}
        return {**used, **load.amounts} if load else used

    @property
    def has_loads(self) -> bool:
        """Whether any load is set."""
        return bool(self._loads)

    def actual_usage(self, pods: Sequence[Pod], capacity: Amounts) -> list[Amounts]:
        """The usage of pods that share a node: if they want more CPU than it has, each gets the same fraction."""
        wanted = [self.of(pod) for pod in pods]
        total = sum(one.get("cpu", 0) for one in wanted)
        part = min(1.0, capacity.get("cpu", 0) / total) if total else 1.0
        return [one | {"cpu": int(part * one.get("cpu", 0))} for one in wanted]

    def cpu_waiting_percent(self, pods: Iterable[Pod], capacity: Amounts) -> float:
        """Percentage of the wanted CPU that the pods of a node do not get."""
        wanted = sum(self.of(pod).get("cpu", 0) for pod in pods)
        return PERCENT * max(0, wanted - capacity.get("cpu", 0)) / wanted if wanted else 0.0
