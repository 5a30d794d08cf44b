"""Reject clusters that match none of the Placement's predicates."""

from collections.abc import Callable

from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import ClusterPredicate
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, placement_filter, sealed
from trimtab.decide.ocm.cel_document import documents, scores_of
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.request import PlacementAsk, Program
from trimtab.decide.ocm.selectors import Matcher, all_hold, by_claims, by_labels, claims_of

PLUGIN = "Predicate"
WITHOUT_CEL = "CEL selectors need the extra `cel` of Trimtab: pip install 'trimtab[cel]'"
NO_MATCH = Reason("NoPredicateMatched", "no predicate of the placement lets the cluster through")


def program_of(predicate: ClusterPredicate, ask: PlacementAsk) -> Program | None:
    selector = predicate.required_cluster_selector.cel_selector
    if selector is None or not selector.cel_expressions:
        return None
    if ask.cel is None:
        raise Misconfigured(PLUGIN, WITHOUT_CEL)
    program = ask.cel(selector.cel_expressions)
    if isinstance(program, str):
        raise Misconfigured(PLUGIN, f"compilation failed: {program}")
    return program


def asked_by(program: Program, fleet: Fleet[ManagedCluster]) -> Matcher:
    documents_by_column = documents(fleet)
    return lambda cluster: program(documents_by_column[fleet.index[cluster.name]], scores_of(cluster.name, fleet))


def matcher(predicate: ClusterPredicate, ask: PlacementAsk, fleet: Fleet[ManagedCluster]) -> Matcher:
    """Labels, claims and expressions must all match; the most expensive check comes last."""
    selector = predicate.required_cluster_selector
    labels, claims = by_labels(selector.label_selector), by_claims(selector.claim_selector)
    program = program_of(predicate, ask)
    holds: Callable[[ManagedCluster], bool] | None = asked_by(program, fleet) if program else None

    def matches(cluster: ManagedCluster) -> bool:
        return (
            all_hold(labels, cluster.metadata.labels)
            and (not claims or all_hold(claims, claims_of(cluster)))
            and (holds is None or holds(cluster))
        )

    return matches


@placement_filter(
    PLUGIN, reads=lambda request: sealed(request.spec.predicates), skips=lambda request: not request.spec.predicates
)
def predicate(ask: PlacementAsk, fleet: Fleet[ManagedCluster]) -> Check[ManagedCluster]:
    try:
        matchers = [matcher(one, ask, fleet) for one in ask.spec.predicates]
    except Misconfigured as fault:
        raise Misconfigured(PLUGIN, fault.message) from fault

    def judge(cluster: ManagedCluster) -> Reason | None:
        return None if not matchers or any(matches(cluster) for matches in matchers) else NO_MATCH

    return judge
