"""The events that the scheduler records about a binding and its template, in upstream's wording."""

from collections.abc import Iterator

from trimtab.api.kinds.work import Binding
from trimtab.controllers import well_known
from trimtab.controllers.contract import RecordEvent
from trimtab.decide.karmada import BindingDecision


def event_source(binding: Binding) -> str:
    return binding.spec.scheduler_name or "default-scheduler"


def deletion_events(binding: Binding) -> Iterator[RecordEvent]:
    """Events for a binding that is not scheduled because it is being deleted."""
    kind = "clusterResourceBinding" if well_known.is_cluster_scoped(binding) else "resourceBinding"
    text = f"skip schedule deleting {kind}: {well_known.qualified_name(binding)}"
    for about in (well_known.ref_of(binding), well_known.template_ref(binding)):
        yield RecordEvent(about, "ScheduleBindingFailed", text, event_source(binding), "Warning")


def decision_events(binding: Binding, decision: BindingDecision) -> Iterator[RecordEvent]:
    """Events for the affinity groups that failed and for the result."""
    abouts = (well_known.ref_of(binding), well_known.template_ref(binding))
    source = event_source(binding)
    groups = [term.affinity_name for term in decision.request.placement.groups]
    for tried in decision.tried_groups:
        if tried.failure is not None:
            text = (
                f"failed to schedule {well_known.format_binding(binding)} with clusterAffiliates "
                f"index({groups.index(tried.affinity_name)}): {tried.failure.message}"
            )
            for about in abouts:
                yield RecordEvent(about, "ScheduleBindingFailed", text, source, "Warning")
    for about in abouts:
        if decision.ok:
            colon = "" if well_known.is_cluster_scoped(binding) else ":"
            shares = ", ".join(f"{name}:{replicas}" for name, replicas in decision.clusters)
            text = f"Binding has been scheduled successfully. Result{colon} {{{shares}}}"
            yield RecordEvent(about, "ScheduleBindingSucceed", text, source)
        else:
            yield RecordEvent(about, "ScheduleBindingFailed", decision.condition[2], source, "Warning")
