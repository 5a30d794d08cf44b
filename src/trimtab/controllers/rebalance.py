"""WorkloadRebalancer -> a fresh placement of each named workload, asked for exactly once."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from trimtab.api.kinds.rebalancer import ObservedWorkload, RebalancerStatus, WorkloadRebalancer, WorkloadReference
from trimtab.api.kinds.work import Binding
from trimtab.controllers import marks
from trimtab.controllers.contract import Again, Gone, Note, View, Wish, controller, spec_changed
from trimtab.interpret.names import binding_name

SOURCE = "workload-rebalancer-controller"
NOT_FOUND = "ReferencedBindingNotFound"


@controller(
    WorkloadRebalancer,
    writes=[
        "status",
        "ResourceBinding.spec.rescheduleTriggeredAt",
        "ClusterResourceBinding.spec.rescheduleTriggeredAt",
    ],
    changed=spec_changed,
)
def rebalance(job: WorkloadRebalancer, view: View) -> Iterator[Wish]:
    if job.metadata.deletion_timestamp is not None:
        return
    results: list[ObservedWorkload] = []
    for item in carried_over(job):
        if item.result:
            results.append(item)
            continue
        binding = binding_of(item.workload, view)
        if binding is None:
            results.append(item.but(result="Failed", reason=NOT_FOUND))
            continue
        at = asked_at(job, item, view)
        yield from stamped(binding, at)
        results.append(item.but(result="Successful"))
    yield from concluded(job, tuple(results), view)


def carried_over(job: WorkloadRebalancer) -> list[ObservedWorkload]:
    """The status list that fits today's spec: what succeeded stays, the rest follows the spec."""
    seen = {item.workload: item for item in job.status.observed_workloads}
    wanted = {ref: seen.get(ref, ObservedWorkload(workload=ref)) for ref in job.spec.workloads}
    kept = {ref: item for ref, item in seen.items() if item.result == "Successful"}
    return [item for _, item in sorted((kept | wanted).items(), key=lambda entry: order(entry[0]))]


def order(ref: WorkloadReference) -> tuple[str, str, str, str]:
    return ref.api_version, ref.kind, ref.namespace, ref.name


def binding_of(ref: WorkloadReference, view: View) -> Binding | None:
    found = marks.binding_at(view, ref.namespace, binding_name(ref.kind, ref.name))
    if found is None or (found.spec.resource.kind, found.spec.resource.name) != (ref.kind, ref.name):
        return None
    return found


def asked_at(job: WorkloadRebalancer, item: ObservedWorkload, view: View) -> datetime:
    """When this workload was asked for: with the rebalancer, or later, when it was added to it."""
    born = job.metadata.creation_timestamp or view.now
    late = job.metadata.generation > 1 and view.profile.rebalancer_waits_for_moves
    return view.now.replace(microsecond=0) if late else born


def stamped(binding: Binding, at: datetime) -> Iterator[Wish]:
    """Ask for a fresh decision; a stamp in the second of the last decision would be lost, so it comes after it."""
    last = binding.status.last_scheduled_time
    already = binding.spec.reschedule_triggered_at
    if already is not None and already >= at:
        return
    if last is not None and already is None:
        at = max(at, last + timedelta(seconds=1)) if at >= last else at
    yield binding.but(spec=binding.spec.but(reschedule_triggered_at=at))


def concluded(job: WorkloadRebalancer, results: tuple[ObservedWorkload, ...], view: View) -> Iterator[Wish]:
    """The status that speaks of it all, and the end of the job when its time has come."""
    changed = results != job.status.observed_workloads or job.status.observed_generation != job.metadata.generation
    refreshed = changed if view.profile.name == "upstream" else results != job.status.observed_workloads
    finished = job.status.finish_time if job.status.finish_time is not None and not refreshed else None
    finish = finished or view.now.replace(microsecond=0)
    status = RebalancerStatus(
        observed_workloads=results, observed_generation=job.metadata.generation, finish_time=finish
    )
    if status != job.status:
        yield job.but(status=status)
        yield from told(job, results, view)
    if (ttl := job.spec.ttl_seconds_after_finished) is not None:
        left = (finish + timedelta(seconds=ttl) - view.now).total_seconds()
        if left > 0:
            yield Again(left)
        elif status == job.status:
            yield Gone(job, revision=job.metadata.resource_version)
        else:
            yield Again(0.001)  # delete only what the next look still finds finished


def told(job: WorkloadRebalancer, results: tuple[ObservedWorkload, ...], view: View) -> Iterator[Note]:
    if view.profile.name == "upstream":
        return
    before = {item.workload: item.result for item in job.status.observed_workloads}
    for item in results:
        if before.get(item.workload) == item.result:
            continue
        name = f"{item.workload.kind} {item.workload.namespace}/{item.workload.name}"
        if item.result == "Failed":
            text = f"{name} cannot be rescheduled: {item.reason}"
            yield Note(marks.ref_of(job), "RescheduleFailed", text, SOURCE, "Warning")
        else:
            yield Note(marks.ref_of(job), "RescheduleTriggered", f"{name} is to be placed afresh", SOURCE)
