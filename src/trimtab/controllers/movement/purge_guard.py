"""Copies that must be gone before new ones start, and what becomes of it when their cluster does not answer."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.kinds.policy import PurgeDeadline
from trimtab.api.kinds.work import Binding, GracefulEvictionTask, Work
from trimtab.api.value import Condition
from trimtab.controllers import well_known
from trimtab.controllers.contract import View
from trimtab.controllers.movement import binding_moves

UNCONFIRMED = "PurgeUnconfirmed"
"""Condition of a binding: something was started elsewhere although the old copy may still run."""
HELD = "PurgeHeld"


class Remnant(NamedTuple):
    """A copy that is to be gone before a new one starts, and is not."""

    cluster: str
    due: datetime | None
    """When patience ends; None is never."""
    proceeds: bool
    """Whether the new copy then starts all the same."""

    def is_overdue(self, now: datetime) -> bool:
        return self.due is not None and now >= self.due

    def blocks(self, now: datetime) -> bool:
        return not (self.proceeds and self.is_overdue(now))


def remnants(binding: Binding, works: Sequence[Work], view: View) -> list[Remnant]:
    """Only a cluster that does not answer has a deadline: one that answers is on its way to be purged."""
    here = {well_known.cluster_of(work.namespace) for work in works}
    return [
        remnant(task, binding, view)
        for task in binding.spec.graceful_eviction_tasks
        if task.purge_mode in well_known.DIRECTLY and task.from_cluster in here
    ]


def remnant(task: GracefulEvictionTask, binding: Binding, view: View) -> Remnant:
    rule = rule_of(task, binding)
    if binding_moves.answers(task.from_cluster, view) or (rule is None and not view.profile.always_write_own_fields):
        return Remnant(task.from_cluster, None, proceeds=False)
    rule = rule or PurgeDeadline()
    due = (task.creation_timestamp or view.now) + timedelta(seconds=rule.seconds)
    return Remnant(task.from_cluster, due, proceeds=rule.then == "Proceed")


def rule_of(task: GracefulEvictionTask, binding: Binding) -> PurgeDeadline | None:
    failover = binding.spec.failover
    if failover is None:
        return None
    behaviour = failover.cluster if task.producer == well_known.TAINT_MANAGER else failover.application
    return behaviour.purge_deadline if behaviour is not None else None


def told(binding: Binding, works: Sequence[Work], view: View) -> Binding:
    """The binding that says what holds it up, or what it did not wait for."""
    left = remnants(binding, works, view)
    overdue = [found for found in left if found.is_overdue(view.now)]
    held = ", ".join(found.cluster for found in overdue if not found.proceeds)
    if held:
        text = f"the copy in {held} must be gone before a new one starts, and the cluster does not answer"
        binding = binding_moves.stalled(binding, HELD, text, view.now)
    else:
        binding = next(binding_moves.getting_on(binding, (HELD,), view.now), binding)
    return unconfirmed(binding, [found.cluster for found in overdue if found.proceeds], works, view)


def unconfirmed(binding: Binding, clusters: Sequence[str], works: Sequence[Work], view: View) -> Binding:
    """It is said until the last of the old copies is known to be gone, also when nobody waits for it any more."""
    known = well_known.condition_of(binding.status.conditions, UNCONFIRMED)
    going = sorted(
        well_known.cluster_of(work.namespace) for work in works if work.metadata.deletion_timestamp is not None
    )
    names = clusters or (going if known is not None and known.status == "True" else ())
    if not names and (known is None or known.status == "False"):
        return binding
    text = f"started elsewhere although the copy in {', '.join(names)} may still run: the cluster does not answer"
    said = Condition(
        type=UNCONFIRMED,
        status="True" if names else "False",
        reason="ClusterUnreachable" if names else "Purged",
        message=text if names else "the old copies are gone",
        last_transition_time=view.now.replace(microsecond=0),
    )
    return binding.but(status=binding.status.but(conditions=well_known.with_condition(binding.status.conditions, said)))


def waits(left: Sequence[Remnant], now: datetime) -> Iterator[float]:
    """Seconds until patience ends, for those with whom it has not."""
    for found in left:
        if found.due is not None and found.due > now:
            yield (found.due - now).total_seconds()
