"""The settings of the rescheduler: the ConfigMap on top of a preset."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from trimtab.api.duration import parse_duration
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import IntOrString, Raw, Value
from trimtab.decide.pods.budgets.budget import scaled_value
from trimtab.errors import InputError

AUTOSCALER_TAINTS = (
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
)


class ObjectiveSetting(Value):
    name: str = ""
    enabled: bool = True
    args: Raw = {}


class Exclusion(Value):
    namespaces: tuple[str, ...] = ()
    node_selector: LabelSelector | None = None


class ReschedulerSettings(Value):
    """Each value of a preset can be overridden by its name."""

    preset: str = "conservative"
    interval: str = "60s"
    objectives: tuple[ObjectiveSetting, ...] = ()
    gain_threshold: float = 30.0
    """Percent of the range of the scheduler's scores."""
    confirmations: int = 3
    """Consecutive rounds in which a move must reach the threshold."""
    head_room: int = 1
    """Disruptions that every budget must have left after the move."""
    unused_rate: float = 0.5
    """Share of a rate that must be left after the move."""
    max_moves: int = 5
    owner_in_flight: IntOrString = 1
    min_pod_age: str = "30m"
    min_replicas: int = 2
    """Owners with fewer ready pods are not moved."""
    require_fit: bool = True
    exclude: Exclusion = Exclusion()
    avoided_taints: tuple[str, ...] = AUTOSCALER_TAINTS
    """Nodes that another component is about to remove."""
    packing: bool = False
    """The scheduler packs nodes (MostAllocated); else it prefers the emptiest (LeastAllocated)."""
    schedulers: tuple[str, ...] = ("", "default-scheduler")
    """Schedulers with the same rules as ours; pods of others are moved only when they have a problem on their node."""

    @property
    def interval_seconds(self) -> float:
        return max(1.0, parse_duration(self.interval).total_seconds())

    @property
    def min_age(self) -> timedelta:
        return parse_duration(self.min_pod_age)

    def max_in_flight(self, replicas: int) -> int:
        return max(1, scaled_value(self.owner_in_flight, replicas))


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "conservative": {},
    "moderate": {
        "gainThreshold": 15.0,
        "confirmations": 2,
        "unusedRate": 0.0,
        "maxMoves": 20,
        "minPodAge": "10m",
    },
    "aggressive": {
        "gainThreshold": 5.0,
        "confirmations": 1,
        "headRoom": 0,
        "unusedRate": 0.0,
        "maxMoves": 100,
        "ownerInFlight": "10%",
        "minPodAge": "2m",
        "minReplicas": 1,
    },
}
DEFAULT_OBJECTIVES = (ObjectiveSetting(name="UnderutilisedNodes"), ObjectiveSetting(name="BetterAffinity"))
"""The objectives when none is configured."""


def read_settings(raw: Any, known: Mapping[str, type[Value]]) -> ReschedulerSettings:
    """The settings of a decoded file; `known` are the objectives with their arguments. Errors name the setting."""
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise InputError("the settings of the rescheduler are not an object")
    preset = raw.get("preset", "conservative")
    if preset not in PRESETS:
        raise InputError(f"there is no preset {preset!r}; there are {', '.join(PRESETS)}")
    fields = {field.encode_name for field in msgspec.structs.fields(ReschedulerSettings)}
    if unknown := sorted(set(raw) - fields):
        raise InputError(f"the rescheduler has no setting {unknown[0]!r}")
    try:
        settings = msgspec.convert({**PRESETS[preset], **raw}, ReschedulerSettings, strict=False)
        for one in settings.objectives:
            if one.name not in known:
                raise InputError(f"there is no objective {one.name!r}; there are {', '.join(sorted(known))}")
            msgspec.convert(one.args, known[one.name], strict=False)
    except msgspec.ValidationError as fault:
        raise InputError(f"the settings of the rescheduler cannot be read: {fault}") from fault
    if not parse_duration(settings.interval):
        raise InputError(f"interval {settings.interval!r} is not a duration such as 60s")
    return settings if settings.objectives else settings.but(objectives=DEFAULT_OBJECTIVES)
