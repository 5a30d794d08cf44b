"""The condition Owned of Push clusters: whether a process holds the Lease of the member and serves it.

Where several processes share the members, a member that none of them holds gets no changes and no new status. The process
that decides reports it here, and in a metric.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.lease import Lease
from trimtab.api.value import Condition, Key
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition, with_condition
from trimtab.controllers.contract import Effect, RecordEvent, RequeueAfter, Topic, Trigger, View, controller

LEASE_NAMESPACE = "member-lease-namespace"
"""In the settings of a process that decides for members that others serve: where their Leases are."""
LEASE_PREFIX = "trimtab-member-"
OWNED = "Owned"
RENEWED: Topic[str, datetime] = Topic("renewed member lease")
"""When the Lease of a member was last seen to change, by the clock for durations."""
SOURCE = "trimtab-member-ownership"


def member_lease(cluster: str) -> str:
    return f"{LEASE_PREFIX}{cluster}"


def cluster_of_lease(old: Lease | None, new: Lease | None, view: View) -> Iterable[Key]:
    """Wake the cluster when the holder of its Lease changes."""
    one = new or old
    if one is None or one.namespace != view.settings.get(LEASE_NAMESPACE) or not one.name.startswith(LEASE_PREFIX):
        return
    if old is None or new is None or old.spec.holder_identity != new.spec.holder_identity:
        yield Key(kind_of(Cluster).id, "", one.name.removeprefix(LEASE_PREFIX))


@controller(
    Cluster,
    name="member-ownership",
    writes=[f"status.conditions[{OWNED}]"],
    triggers=[Trigger(Lease, cluster_of_lease)],
)
def member_ownership(cluster: Cluster, view: View) -> Iterator[Effect]:
    namespace = view.settings.get(LEASE_NAMESPACE)
    if cluster.metadata.deletion_timestamp is not None:
        return
    before = find_condition(cluster.status.conditions, OWNED)
    if not namespace or cluster.spec.sync_mode == "Pull":
        if before is not None:  # processes shared the members until now, or an agent came
            others = tuple(one for one in cluster.status.conditions if one is not before)
            yield cluster.but(status=cluster.status.but(conditions=others))
        return
    holder, wait = current_holder(cluster, namespace, view)
    condition = Condition(
        type=OWNED,
        status="True" if holder else "False",
        reason="Served" if holder else "NoOwner",
        message=f"served by {holder}" if holder else "no process holds the Lease of this member; nothing is applied",
        last_transition_time=view.now.replace(microsecond=0),
    )
    conditions = with_condition(cluster.status.conditions, condition)
    if conditions != cluster.status.conditions:
        yield cluster.but(status=cluster.status.but(conditions=conditions))
    if not holder and (before is None or before.status != "False"):
        yield RecordEvent(well_known.ref_of(cluster), "MemberUnowned", condition.message, SOURCE, "Warning")
    yield RequeueAfter(wait)


def current_holder(cluster: Cluster, namespace: str, view: View) -> tuple[str, float]:
    """The process that holds the Lease, empty if there is none, and the seconds after which to look again."""
    lease = view.get(Lease, namespace, member_lease(cluster.name))
    seconds = float((lease.spec.lease_duration_seconds if lease is not None else None) or 15)
    renewed = view.recall(RENEWED, cluster.name)
    if lease is None or not lease.spec.holder_identity or renewed is None:
        return "", seconds
    left = (renewed + timedelta(seconds=seconds) - view.steady_now).total_seconds()
    return (lease.spec.holder_identity, left + 0.1) if left > 0 else ("", seconds)
