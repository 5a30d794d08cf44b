"""ClusterTaintPolicy: adds and removes taints of a cluster according to its conditions."""

from collections.abc import Iterable, Iterator, Sequence

from trimtab.api.affinity import affinity_matcher
from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster, Taint
from trimtab.api.kinds.taint_policy import ClusterTaintPolicy, MatchCondition
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.clusters.health import format_taints
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.contract import Effect, RecordEvent, Trigger, View, controller
from trimtab.controllers.settings import setting

SOURCE = "cluster-taint-policy-controller"


def clusters_of_policy(old: ClusterTaintPolicy | None, new: ClusterTaintPolicy | None, view: View) -> Iterable[Key]:
    if new is not None and (old is None or old.spec != new.spec):
        yield from map(key_of, view.all(Cluster))


def condition_changed(old: Cluster | None, new: Cluster) -> bool:
    return old is None or old.status.conditions != new.status.conditions


@controller(
    Cluster,
    writes=["spec.taints"],
    predicate=condition_changed,
    triggers=[Trigger(ClusterTaintPolicy, clusters_of_policy)],
)
def taint_policies(cluster: Cluster, view: View) -> Iterator[Effect]:
    if cluster.metadata.deletion_timestamp is not None or not setting(view, "failover"):
        return
    taints = list(cluster.spec.taints)
    for policy in sorted(view.all(ClusterTaintPolicy), key=creation_order):
        if not affinity_matcher(policy.spec.target_clusters)(cluster):
            continue
        if all_match(policy.spec.add_on_conditions, cluster):
            for wanted in policy.spec.taints:
                if not any((t.key, t.effect) == (wanted.key, wanted.effect) for t in taints):
                    now = view.now.replace(microsecond=0)
                    taints.append(Taint(key=wanted.key, value=wanted.value, effect=wanted.effect, time_added=now))
        if all_match(policy.spec.remove_on_conditions, cluster):
            unwanted = {(t.key, t.effect) for t in policy.spec.taints}
            taints = [t for t in taints if (t.key, t.effect) not in unwanted]
    if tuple(taints) != cluster.spec.taints:
        yield cluster.but(spec=cluster.spec.but(taints=tuple(taints)))
        yield RecordEvent(well_known.ref_of(cluster), "TaintClusterSucceed", format_taints(taints), SOURCE)


def creation_order(policy: ClusterTaintPolicy) -> tuple[str, str]:
    created = policy.metadata.creation_timestamp
    return (created.isoformat() if created is not None else "", policy.name)


def all_match(conditions: Sequence[MatchCondition], cluster: Cluster) -> bool:
    """Whether all conditions match; false for an empty list, and for a condition type the cluster does not have."""
    return bool(conditions) and all(matches(condition, cluster) for condition in conditions)


def matches(rule: MatchCondition, cluster: Cluster) -> bool:
    found = find_condition(cluster.status.conditions, rule.condition_type)
    if found is None:
        return False
    listed = found.status in rule.status_values
    return listed if rule.operator == "In" else not listed
