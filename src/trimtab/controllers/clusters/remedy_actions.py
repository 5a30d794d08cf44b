"""Remedy: reports in the status of a cluster the actions that its conditions require."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.remedy import DecisionMatch, Remedy
from trimtab.api.value import Key
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.contract import Effect, Trigger, View, controller


def clusters_of_remedy(old: Remedy | None, new: Remedy | None, view: View) -> Iterable[Key]:
    if old is None or new is None or old.spec != new.spec:
        remedies = [one for one in (old, new) if one is not None]
        yield from (key_of(one) for one in view.all(Cluster) if any(selects(remedy, one) for remedy in remedies))


def condition_changed(old: Cluster | None, new: Cluster) -> bool:
    return old is None or old.status.conditions != new.status.conditions


@controller(
    Cluster,
    writes=["status.remedyActions"],
    predicate=condition_changed,
    triggers=[Trigger(Remedy, clusters_of_remedy)],
)
def remedy_actions(cluster: Cluster, view: View) -> Iterator[Effect]:
    if cluster.metadata.deletion_timestamp is not None:
        return
    due = [remedy for remedy in view.all(Remedy) if selects(remedy, cluster) and is_due(remedy, cluster)]
    actions = tuple(sorted({action for remedy in due for action in remedy.spec.actions}))
    if actions != cluster.status.remedy_actions:
        yield cluster.but(status=cluster.status.but(remedy_actions=actions))


def selects(remedy: Remedy, cluster: Cluster) -> bool:
    affinity = remedy.spec.cluster_affinity
    return affinity is None or cluster.name in affinity.cluster_names


def is_due(remedy: Remedy, cluster: Cluster) -> bool:
    """Whether the Remedy acts now: always without decisions, otherwise when one of them matches."""
    decisions = remedy.spec.decision_matches
    return not decisions or any(matches(decision, cluster) for decision in decisions)


def matches(decision: DecisionMatch, cluster: Cluster) -> bool:
    """Whether a condition has, or has not, a status; a condition that the cluster does not report never matches."""
    wanted = decision.cluster_condition_match
    found = find_condition(cluster.status.conditions, wanted.condition_type) if wanted is not None else None
    if wanted is None or found is None:
        return False
    return (found.status == wanted.condition_status) is (wanted.operator == "Equal")
