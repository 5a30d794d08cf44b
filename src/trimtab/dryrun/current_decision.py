"""What the scheduler would decide about one binding now: the answer of `explain` where no decision is remembered."""

from trimtab import plugins
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, PlacementDecision
from trimtab.api.kinds.quota import FederatedResourceQuota
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import Binding
from trimtab.api.value import Object
from trimtab.controllers.contract import View
from trimtab.controllers.feature_gates import feature_gates
from trimtab.controllers.placement_requests import request_for
from trimtab.controllers.propagation.scheduling.adjustment import adjust_to_intent
from trimtab.controllers.propagation.scheduling.candidates import placement_candidates
from trimtab.controllers.propagation.scheduling.intent import intent_of
from trimtab.controllers.quota.quota_usage import QuotaLedger
from trimtab.decide.karmada import BindingDecision, decide

KINDS: tuple[type[Object], ...] = (
    Cluster,
    AddOnPlacementScore,
    PlacementDecision,
    WorkloadRebalancer,
    FederatedResourceQuota,
)
"""What a decision about one binding reads, beside the bindings of its affinity groups and its namespace's quotas."""


def decide_now(binding: Binding, view: View) -> BindingDecision:
    """The decision of the scheduler, with its own functions; a binding without a reason to be scheduled is decided as it is."""
    plugins.load_for_clusters()
    intent = intent_of(binding, view.fleet, feature_gates(view), view)
    if intent is None:
        return decide(request_for(binding, view, placement_candidates(binding, view)), view.fleet, view.profile)
    decision = decide(intent.request, view.fleet, view.profile)
    return QuotaLedger(view).check(binding, adjust_to_intent(binding, decision, intent))


def needs_other_bindings(binding: Binding, view: View) -> bool:
    """Whether the decision depends on other bindings of the namespace."""
    return binding.spec.workload_affinity_groups is not None or bool(
        view.all(FederatedResourceQuota, binding.namespace)
    )
