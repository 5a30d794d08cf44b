"""Old copies that must be deleted before new ones start, and the deadline when their cluster is not ready."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.kinds.policy import PurgeDeadline
from trimtab.api.kinds.work import Binding, GracefulEvictionTask, Work
from trimtab.api.value import Condition
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition, with_condition
from trimtab.controllers.contract import View
from trimtab.controllers.movement import binding_moves

UNCONFIRMED = "PurgeUnconfirmed"
"""Condition of a binding: a new copy was started although the old one may still run."""
PURGE_HELD = "WaitingForPurge"


class UnpurgedCopy(NamedTuple):
    """A copy that must be deleted before a new one starts, and still exists."""

    cluster: str
    deadline: datetime | None
    """When waiting ends; None means never."""
    proceeds: bool
    """Whether the new copy starts after the deadline."""

    def is_overdue(self, now: datetime) -> bool:
        return self.deadline is not None and now >= self.deadline

    def is_blocking(self, now: datetime) -> bool:
        return not (self.proceeds and self.is_overdue(now))


def unpurged_copies(binding: Binding, works: Sequence[Work], view: View) -> list[UnpurgedCopy]:
    """Only a cluster that is not ready has a deadline: in a ready one the deletion is in progress."""
    tasks = [t for t in binding.spec.graceful_eviction_tasks if t.purge_mode in well_known.IMMEDIATE_PURGE_MODES]
    if not tasks:
        return []
    clusters = {well_known.cluster_of(work.namespace) for work in works}
    return [unpurged_copy(task, binding, view) for task in tasks if task.from_cluster in clusters]


def unpurged_copy(task: GracefulEvictionTask, binding: Binding, view: View) -> UnpurgedCopy:
    rule = purge_deadline_of(task, binding)
    if binding_moves.is_cluster_ready(task.from_cluster, view) or (
        rule is None and not view.profile.always_write_own_fields
    ):
        return UnpurgedCopy(task.from_cluster, None, proceeds=False)
    rule = rule or PurgeDeadline()
    due = (task.creation_timestamp or view.now) + timedelta(seconds=rule.seconds)
    return UnpurgedCopy(task.from_cluster, due, proceeds=rule.then == "Proceed")


def purge_deadline_of(task: GracefulEvictionTask, binding: Binding) -> PurgeDeadline | None:
    failover = binding.spec.failover
    if failover is None:
        return None
    behaviour = failover.cluster if task.producer == well_known.TAINT_MANAGER else failover.application
    return behaviour.purge_deadline if behaviour is not None else None


def with_purge_conditions(binding: Binding, works: Sequence[Work], view: View) -> Binding:
    """The binding with conditions that say which copy blocks it, or which copy it did not wait for."""
    overdue = [copy for copy in unpurged_copies(binding, works, view) if copy.is_overdue(view.now)]
    held = ", ".join(copy.cluster for copy in overdue if not copy.proceeds)
    if held:
        text = f"the copy in {held} must be deleted before a new one starts, but the cluster is not ready"
        binding = binding_moves.with_stalled_condition(binding, PURGE_HELD, text, view.now)
    else:
        binding = next(binding_moves.clear_stalled(binding, (PURGE_HELD,), view.now), binding)
    return with_unconfirmed_condition(binding, [copy.cluster for copy in overdue if copy.proceeds], works, view)


def with_unconfirmed_condition(binding: Binding, clusters: Sequence[str], works: Sequence[Work], view: View) -> Binding:
    """PurgeUnconfirmed stays True until all old copies are known to be deleted, also without eviction tasks."""
    known = find_condition(binding.status.conditions, UNCONFIRMED)
    going = sorted(
        well_known.cluster_of(work.namespace) for work in works if work.metadata.deletion_timestamp is not None
    )
    names = clusters or (going if known is not None and known.status == "True" else ())
    if not names and (known is None or known.status == "False"):
        return binding
    text = f"started elsewhere although the copy in {', '.join(names)} may still run: the cluster is not ready"
    condition = Condition(
        type=UNCONFIRMED,
        status="True" if names else "False",
        reason="ClusterUnreachable" if names else "Purged",
        message=text if names else "the old copies are deleted",
        last_transition_time=view.now.replace(microsecond=0),
    )
    return binding.but(status=binding.status.but(conditions=with_condition(binding.status.conditions, condition)))


def seconds_until_deadlines(copies: Sequence[UnpurgedCopy], now: datetime) -> Iterator[float]:
    """Seconds until each deadline that has not passed."""
    for copy in copies:
        if copy.deadline is not None and copy.deadline > now:
            yield (copy.deadline - now).total_seconds()
