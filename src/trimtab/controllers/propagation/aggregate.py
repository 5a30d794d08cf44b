"""Aggregates the status of a binding's Works into the binding, its FullyApplied condition and the template."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from trimtab.api.kind import key_of, kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import AggregatedStatusItem, Binding, Work
from trimtab.api.value import Condition, Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.conditions import find_condition, with_condition
from trimtab.controllers.contract import (
    Effect,
    Ensure,
    RecordEvent,
    RememberInProcess,
    RequeueAfter,
    Topic,
    Trigger,
    View,
    controller,
)
from trimtab.controllers.propagation.dispatch import expected_clusters, works_of
from trimtab.controllers.propagation.scheduling.scope import is_scheduled_here
from trimtab.controllers.propagation.template_status import aggregate_while_moving
from trimtab.interpret.operations import InterpreterError, Operation

REPORT_WAIT_SECONDS = 5.0
MAX_REPORT_WAIT_SECONDS = 20.0
SCHEDULER_WAIT_SECONDS = 0.25


class PendingReport(NamedTuple):
    """A report that waits for clusters whose Works have no Applied condition yet."""

    since: datetime
    seconds: float
    cluster: str = ""
    """A cluster whose status is missing; until it arrives, status changes of other clusters cause no reconcile."""

    def is_outdated(self, binding: Binding) -> bool:
        """Whether it belongs to an earlier placement."""
        scheduled = binding.status.last_scheduled_time
        return scheduled is not None and self.since < scheduled

    def seconds_left(self, view: View) -> float:
        """A clock that was set, forward or back, ends the wait: the report may come early, but it does come."""
        return self.seconds - abs((view.now - self.since).total_seconds())


PENDING_REPORT: Topic[Key, PendingReport] = Topic("pending report")


def binding_of_reported_work(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    if (
        old is not None
        and new is not None
        and (old.status, old.metadata.deletion_timestamp)
        == (
            new.status,
            new.metadata.deletion_timestamp,
        )
    ):
        return
    work = new or old
    if work is None or (key := well_known.binding_key_of_work(work)) is None:
        return
    if new is None or new.metadata.deletion_timestamp is not None or not is_report_pending(new, key, view):
        yield key


def is_report_pending(work: Work, key: Key, view: View) -> bool:
    """Whether the binding of this Work still waits for another cluster; a requeue is set for the end of the wait."""
    pending = view.recall(PENDING_REPORT, key)
    if pending is None or not pending.cluster:
        return False
    binding = well_known.binding_at(view, key.namespace, key.name)
    awaited = view.get(Work, well_known.execution_namespace(pending.cluster), work.name)
    return (
        binding is not None
        and not pending.is_outdated(binding)
        and (awaited is None or find_condition(awaited.status.conditions, "Applied") is None)
        and any(target.name == pending.cluster for target in binding.spec.clusters)
        and is_cluster_ready(pending.cluster, view)
        and pending.seconds_left(view) > 0
    )


def bindings_of_cluster(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """When a cluster becomes unready, the last reported health of its workloads may no longer be true."""
    if not view.profile.unknown_health_when_not_ready or old is None or new is None:
        return
    if is_ready(old) != is_ready(new):
        for binding in well_known.bindings_in_cluster(view, new.name):
            yield Key(kind_of(binding).id, binding.namespace, binding.name)


def needs_report(old: Binding | None, new: Binding) -> bool:
    """Whether a change of the binding itself needs a report.

    A new binding and one without clusters need none as long as they have no FullyApplied: Works trigger the first report.
    """
    reported = find_condition(new.status.conditions, "FullyApplied") is not None
    if not reported and (old is None or not expected_clusters(old)):
        return False
    return (
        old is None
        or (old.metadata.generation != new.metadata.generation and old.spec != new.spec)
        or (reported and old.status.last_scheduled_time is None and new.status.last_scheduled_time is not None)
    )


@controller(
    *well_known.BINDINGS,
    writes=["status.conditions[FullyApplied]", "status.aggregatedStatus"],
    predicate=needs_report,
    triggers=[Trigger(Work, binding_of_reported_work), Trigger(Cluster, bindings_of_cluster)],
    resumes=True,
)
def aggregate(binding: Binding, view: View) -> Iterator[Effect]:
    if binding.metadata.deletion_timestamp is not None:
        return
    expected = expected_clusters(binding)
    works = works_to_report(binding, expected, view)
    if not works and find_condition(binding.status.conditions, "FullyApplied") is None:
        yield from clear_awaited_cluster(binding, view)
        return  # no Work was ever created, so there is no status to report
    if (wait := effects_while_waiting(binding, expected, works, view)) is not None:
        yield from wait
        return
    items = tuple(sorted((status_item(work, binding, view) for work in works), key=lambda item: item.cluster_name))
    applied = fully_applied_condition(binding, expected, items, works, view)
    status = binding.status.but(aggregated_status=items, conditions=with_condition(binding.status.conditions, applied))
    source = (
        "cluster-resource-binding-status-controller"
        if well_known.is_cluster_scoped(binding)
        else "resource-binding-status-controller"
    )
    if status != binding.status:
        yield from double_next_wait(binding, view)
        yield binding.but(status=status)
        text = f"Update {well_known.format_binding(binding)} with AggregatedStatus successfully."
        yield RecordEvent(well_known.ref_of(binding), "AggregateStatusSucceed", text, source, routine=True)
    yield from update_template_status(binding, items, view, source)


def works_to_report(binding: Binding, expected: set[str], view: View) -> list[Work]:
    """The Works that count: not those in deletion, nor those that `dispatch` is about to delete."""
    works = [work for work in works_of(binding, view) if work.metadata.deletion_timestamp is None]
    if not view.profile.skip_empty_steps:
        return works
    return [work for work in works if well_known.cluster_of(work.namespace) in expected]


def effects_while_waiting(
    binding: Binding, expected: set[str], works: list[Work], view: View
) -> tuple[Effect, ...] | None:
    """What to do while the status of some cluster is missing; None when the report is due.

    Waiting for several clusters saves writes: one report covers all of them. Unready clusters are not waited for. The
    Scheduled condition always is, see `is_being_placed`.
    """
    reported = {well_known.cluster_of(w.namespace) for w in works if find_condition(w.status.conditions, "Applied")}
    missing = [name for name in expected - reported if is_cluster_ready(name, view)]
    if not missing and not is_being_placed(binding):
        return None
    before = pending_report(binding, view)
    pending = before or PendingReport(view.now, REPORT_WAIT_SECONDS)
    left = pending.seconds_left(view)
    if left <= 0:
        return None
    if not missing:
        requeue = RequeueAfter(min(left, SCHEDULER_WAIT_SECONDS))
        return (requeue,) if before else (RememberInProcess(PENDING_REPORT, key_of(binding), pending), requeue)
    if pending.cluster in missing:
        return (RequeueAfter(left),)
    last = max(missing)  # Works are written in the order of cluster names, so this one is probably the last to report
    return RememberInProcess(PENDING_REPORT, key_of(binding), pending._replace(cluster=last)), RequeueAfter(left)


def is_being_placed(binding: Binding) -> bool:
    """Whether the scheduler has written spec.clusters but not yet the Scheduled condition.

    On a remote API server these are two writes. Without this, status could be reported before `Scheduled` is set.
    """
    return (
        bool(binding.spec.clusters)
        and is_scheduled_here(binding)
        and find_condition(binding.status.conditions, "Scheduled") is None
    )


def pending_report(binding: Binding, view: View) -> PendingReport | None:
    """The pending report of the current placement, if there is one."""
    pending = view.recall(PENDING_REPORT, key_of(binding))
    return None if pending is None or pending.is_outdated(binding) else pending


def double_next_wait(binding: Binding, view: View) -> Iterator[Effect]:
    """While statuses are still missing, each report waits twice as long as the one before."""
    key = key_of(binding)
    pending = view.recall(PENDING_REPORT, key)
    if pending is not None:
        yield RememberInProcess(
            PENDING_REPORT, key, PendingReport(view.now, min(MAX_REPORT_WAIT_SECONDS, pending.seconds * 2))
        )


def clear_awaited_cluster(binding: Binding, view: View) -> Iterator[Effect]:
    """Without Works there is no cluster to wait for, and no requeue is set."""
    key = key_of(binding)
    pending = view.recall(PENDING_REPORT, key)
    if pending is not None and pending.cluster:
        yield RememberInProcess(PENDING_REPORT, key, pending._replace(cluster=""))


def status_item(work: Work, binding: Binding, view: View) -> AggregatedStatusItem:
    """The status of one cluster, from its Work."""
    name = well_known.cluster_of(work.namespace)
    applied = find_condition(work.status.conditions, "Applied")
    before = next((i for i in binding.status.aggregated_status if i.cluster_name == name), None)
    if applied is None or applied.status != "True":
        unapplied = AggregatedStatusItem(
            cluster_name=name, applied_message=applied.message if applied else "", health="Unknown"
        )
        if before is None or not uses_own_fields(binding, view):
            return unapplied
        # A failed write hides the status for a while, but the copy keeps its age and whether it has settled.
        return unapplied.but(settled=before.settled, creation_timestamp=before.creation_timestamp)
    first = work.status.manifest_statuses[0] if work.status.manifest_statuses else None
    health = (first.health if first else "") or "Unknown"
    if view.profile.unknown_health_when_not_ready and not is_cluster_ready(name, view):
        health = "Unknown"
    item = AggregatedStatusItem(cluster_name=name, applied=True, status=first.status if first else None, health=health)
    if uses_own_fields(binding, view):
        since = before.creation_timestamp if before is not None else None
        settled = health == "Healthy" or (before is not None and before.settled)
        collected = view.now.replace(microsecond=0) if first is not None else None
        item = item.but(settled=settled, creation_timestamp=since or collected)
    return item


def is_cluster_ready(name: str, view: View) -> bool:
    cluster = view.get(Cluster, "", name)
    return cluster is not None and is_ready(cluster)


def uses_own_fields(binding: Binding, view: View) -> bool:
    """Fields that upstream does not have are written where a policy uses them, or always in the profile trimtab."""
    failover = binding.spec.failover.application if binding.spec.failover else None
    if failover is None:
        return False
    return view.profile.always_write_own_fields or failover.pre_conditions is not None


def fully_applied_condition(
    binding: Binding, expected: set[str], items: tuple[AggregatedStatusItem, ...], works: list[Work], view: View
) -> Condition:
    done = (
        bool(expected) and len(items) == len(expected) and all(i.applied and i.cluster_name in expected for i in items)
    )
    if done and view.profile.fully_applied_checks_generation:
        done = all(has_current_generation(work, binding, view) for work in works)
    now = view.now.replace(microsecond=0)
    if done:
        return Condition(
            type="FullyApplied",
            status="True",
            reason="FullyAppliedSuccess",
            message="All works have been successfully applied",
            last_transition_time=now,
        )
    return Condition(
        type="FullyApplied",
        status="False",
        reason="FullyAppliedFailed",
        message="Failed to apply all works, see status.aggregatedStatus for details",
        last_transition_time=now,
    )


def has_current_generation(work: Work, binding: Binding, view: View) -> bool:
    """Whether the reported statuses belong to the generation of the template that the Work carries."""
    for manifest, status in zip(work.spec.workload.manifests, work.status.manifest_statuses, strict=False):
        sent = well_known.annotations_of(manifest).get(well_known.TEMPLATE_GENERATION, "")
        observed = (status.status or {}).get("resourceTemplateGeneration")
        if sent and observed is not None and str(observed) != sent:
            return False
    return len(work.status.manifest_statuses) == len(work.spec.workload.manifests)


def update_template_status(
    binding: Binding, items: tuple[AggregatedStatusItem, ...], view: View, source: str
) -> Iterator[Effect]:
    """Write the aggregated status of the members into the template, where users and tools read it."""
    interpreter = view.interpreter
    ref = well_known.template_ref(binding)
    template = view.raw(ref)
    if template is None or not interpreter.interprets((ref.api_version, ref.kind), Operation.AGGREGATE_STATUS):
        return
    if template["metadata"].get("uid") != ref.uid or binding.status.last_scheduled_time is None:
        return

    def aggregate_items(counted: Sequence[Raw]) -> Raw:
        return interpreter.aggregate(template, counted)

    try:
        if view.profile.template_status_counts_leaving:
            wanted = aggregate_while_moving(
                binding, items, aggregate_items, is_ready=lambda cluster: is_cluster_ready(cluster, view)
            )
        else:
            wanted = aggregate_items([msgspec.to_builtins(item) for item in items])
    except InterpreterError as fault:
        yield RecordEvent(ref, "AggregateStatusFailed", str(fault), source, "Warning")
        return
    if (wanted.get("status") or {}) != (template.get("status") or {}):
        yield Ensure(
            {**template, "status": wanted.get("status") or {}}, seen=template, subresource="status", replace=True
        )
        yield RecordEvent(ref, "AggregateStatusSucceed", "Update Resource with AggregatedStatus successfully.", source)
