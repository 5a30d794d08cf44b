"""Reject clusters that match none of the Placement's predicates."""

from collections.abc import Callable

from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import ClusterPredicate
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, hashable_key, placement_filter
from trimtab.decide.ocm.cel_document import cel_documents, score_lookup
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.request import CelProgram, OcmRequest
from trimtab.decide.ocm.selectors import Matcher, all_match, claim_rules, claims_of, label_rules

PLUGIN = "Predicate"
CEL_MISSING = "CEL selectors need the extra `cel` of Trimtab: pip install 'trimtab[cel]'"
NO_MATCH = Reason("NoPredicateMatched", "no predicate of the placement selects the cluster")


def cel_program(predicate: ClusterPredicate, request: OcmRequest) -> CelProgram | None:
    selector = predicate.required_cluster_selector.cel_selector
    if selector is None or not selector.cel_expressions:
        return None
    if request.cel is None:
        raise Misconfigured(PLUGIN, CEL_MISSING)
    program = request.cel(selector.cel_expressions)
    if isinstance(program, str):
        raise Misconfigured(PLUGIN, f"compilation failed: {program}")
    return program


def program_matcher(program: CelProgram, fleet: Fleet[ManagedCluster]) -> Matcher:
    documents_by_column = cel_documents(fleet)
    return lambda cluster: program(documents_by_column[fleet.index[cluster.name]], score_lookup(cluster.name, fleet))


def predicate_matcher(predicate: ClusterPredicate, request: OcmRequest, fleet: Fleet[ManagedCluster]) -> Matcher:
    """Labels, claims and expressions must all match; the most expensive check comes last."""
    selector = predicate.required_cluster_selector
    labels, claims = label_rules(selector.label_selector), claim_rules(selector.claim_selector)
    program = cel_program(predicate, request)
    holds: Callable[[ManagedCluster], bool] | None = program_matcher(program, fleet) if program else None

    def matches(cluster: ManagedCluster) -> bool:
        return (
            all_match(labels, cluster.metadata.labels)
            and (not claims or all_match(claims, claims_of(cluster)))
            and (holds is None or holds(cluster))
        )

    return matches


@placement_filter(
    PLUGIN,
    reads=lambda request: hashable_key(request.spec.predicates),
    skips=lambda request: not request.spec.predicates,
)
def predicate(request: OcmRequest, fleet: Fleet[ManagedCluster]) -> Check[ManagedCluster]:
    try:
        matchers = [predicate_matcher(one, request, fleet) for one in request.spec.predicates]
    except Misconfigured as fault:
        raise Misconfigured(PLUGIN, fault.message) from fault

    def judge(cluster: ManagedCluster) -> Reason | None:
        return None if not matchers or any(matches(cluster) for matches in matchers) else NO_MATCH

    return judge
