"""Until when a Placement tolerates the taints of a cluster."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterTaint
from trimtab.api.kinds.ocm_placement import PlacementToleration
from trimtab.decide.fleet import MIN_TIME, Fleet
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.request import OcmRequest

PLUGIN = "TaintToleration"
NEVER, FOREVER = float("-inf"), float("inf")
_MAX_TIMESTAMP = datetime.max.replace(tzinfo=UTC).timestamp() - 86400


def validate_tolerations(tolerations: Sequence[PlacementToleration]) -> None:
    """Reject contradictory tolerations."""
    for toleration in tolerations:
        if not toleration.key and toleration.operator != "Exists":
            raise Misconfigured(PLUGIN, "If the key is empty, operator must be Exists.")
        if toleration.operator == "Exists" and toleration.value:
            raise Misconfigured(PLUGIN, "If the operator is Exists, the value should be empty.")


def matches_taint(toleration: PlacementToleration, taint: ManagedClusterTaint) -> bool:
    """Whether the toleration matches this taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def toleration_end(toleration: PlacementToleration, taint: ManagedClusterTaint) -> float:
    """When the toleration of this taint ends, in seconds since 1970."""
    if toleration.toleration_seconds is None:
        return FOREVER
    return (taint.time_added or MIN_TIME).timestamp() + toleration.toleration_seconds


def is_harmless(taint: ManagedClusterTaint, *, in_use: bool) -> bool:
    """Whether the taint never excludes a cluster, or only excludes clusters that are not in use."""
    return taint.effect == "PreferNoSelect" or (taint.effect == "NoSelectIfNew" and in_use)


def tolerated_until(tolerations: Sequence[PlacementToleration], *, in_use: bool) -> Callable[[ManagedCluster], float]:
    """Until when all taints of a cluster are tolerated, by any toleration."""

    def last(cluster: ManagedCluster) -> float:
        return min(
            (
                max((toleration_end(t, taint) for t in tolerations if matches_taint(t, taint)), default=NEVER)
                for taint in cluster.spec.taints
                if not is_harmless(taint, in_use=in_use)
            ),
            default=FOREVER,
        )

    return last


def next_toleration_end(request: OcmRequest, fleet: Fleet[ManagedCluster]) -> datetime | None:
    """When the first toleration that a cluster in use depends on ends; the Placement must be checked again then."""
    tolerations = request.spec.tolerations
    if not request.placed or not tolerations or all(t.toleration_seconds is None for t in tolerations):
        return None
    columns = fleet.columns_of(request.placed)
    tainted = columns[fleet.column("tainted", lambda: lambda cluster: bool(cluster.spec.taints), bool)[columns]]
    now = request.now.timestamp()
    first = min((_first_active_end(fleet.targets[column], tolerations, now) for column in tainted), default=FOREVER)
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=first) if first < _MAX_TIMESTAMP else None


def _first_active_end(cluster: ManagedCluster, tolerations: Sequence[PlacementToleration], now: float) -> float:
    """The end of the first active toleration over all taints; infinity when a taint is not tolerated."""
    first = FOREVER
    for taint in cluster.spec.taints:
        if is_harmless(taint, in_use=True):
            continue
        holding = next(
            (e for t in tolerations if matches_taint(t, taint) and now < (e := toleration_end(t, taint))), None
        )
        if holding is None:
            return FOREVER
        first = min(first, holding)
    return first
