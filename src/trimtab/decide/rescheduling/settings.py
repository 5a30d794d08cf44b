"""How eager the rescheduler is: what the ConfigMap says, on top of a preset."""

from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec

from trimtab.api.duration import duration
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import IntOrString, Raw, Value
from trimtab.decide.pods.budgets.budget import scaled
from trimtab.errors import InputFault

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


class Settings(Value):
    """Every column of a preset may be overridden by its name."""

    preset: str = "conservative"
    interval: str = "60s"
    objectives: tuple[ObjectiveSetting, ...] = ()
    gain_threshold: float = 30.0
    """Percent of what the scheduler's scores can differ by."""
    confirmations: int = 3
    """Rounds in a row in which a move must be worth it."""
    head_room: int = 1
    """Disruptions that every budget must have left after the move."""
    unused_rate: float = 0.5
    """Part of a rate that must be left after the move."""
    max_moves: int = 5
    owner_in_flight: IntOrString = 1
    min_pod_age: str = "30m"
    min_replicas: int = 2
    """Owners with fewer ready pods are spared."""
    require_fit: bool = True
    exclude: Exclusion = Exclusion()
    avoided_taints: tuple[str, ...] = AUTOSCALER_TAINTS
    """Nodes that somebody else is about to remove."""
    packing: bool = False
    """The scheduler fills nodes one after the other (MostAllocated); else it prefers the emptiest (LeastAllocated)."""
    schedulers: tuple[str, ...] = ("", "default-scheduler")
    """Schedulers that decide as ours does; pods of others are moved only when something is wrong with their node."""

    @property
    def seconds(self) -> float:
        return max(1.0, duration(self.interval).total_seconds())

    @property
    def youngest(self) -> timedelta:
        return _span(self.min_pod_age)

    def most_in_flight(self, replicas: int) -> int:
        return max(1, scaled(self.owner_in_flight, replicas))


_span = lru_cache(duration)
"""Asked for every pod that somebody would like to move."""


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
USUAL = (ObjectiveSetting(name="UnderutilisedNodes"), ObjectiveSetting(name="BetterAffinity"))
"""What is striven for when nothing is named: the two with which the design begins."""


def read_settings(raw: Any, known: Mapping[str, type[Value]]) -> Settings:
    """The settings of a decoded file; `known` are the objectives with their arguments. What is wrong is told by name."""
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise InputFault("the settings of the rescheduler are not an object")
    preset = raw.get("preset", "conservative")
    if preset not in PRESETS:
        raise InputFault(f"there is no preset {preset!r}; there are {', '.join(PRESETS)}")
    fields = {field.encode_name for field in msgspec.structs.fields(Settings)}
    if strange := sorted(set(raw) - fields):
        raise InputFault(f"the rescheduler has no setting {strange[0]!r}")
    try:
        settings = msgspec.convert({**PRESETS[preset], **raw}, Settings, strict=False)
        for one in settings.objectives:
            if one.name not in known:
                raise InputFault(f"there is no objective {one.name!r}; there are {', '.join(sorted(known))}")
            msgspec.convert(one.args, known[one.name], strict=False)
    except msgspec.ValidationError as fault:
        raise InputFault(f"the settings of the rescheduler cannot be read: {fault}") from fault
    if not duration(settings.interval):
        raise InputFault(f"interval {settings.interval!r} is not a duration such as 60s")
    return settings if settings.objectives else settings.but(objectives=USUAL)
