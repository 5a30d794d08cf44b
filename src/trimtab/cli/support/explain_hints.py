"""What would have to change for a rejected cluster to be chosen, and what a kept copy waits for."""

import re
from collections.abc import Iterator, Mapping

from trimtab.api.kinds.cluster import CORDON_TAINT, NOT_READY_TAINT, UNREACHABLE_TAINT, Cluster
from trimtab.api.kinds.work import Binding
from trimtab.api.wording import plural
from trimtab.decide.explanation import ClusterExplanation, ClusterRejection, Explanation

HINTS = {
    "UntoleratedTaint": "tolerate the taint in the policy (placement.clusterTolerations), or remove it from the cluster: "
    "trimtab taint cluster/{cluster} {taint}-",
    "AffinityMismatch": "name the cluster in the policy (placement.clusterAffinity), or give it the labels that the policy "
    "selects",
    "APINotEnabled": "install the API of the kind {kind} in the cluster",
    "PropertyMissing": "set the missing property in the spec of the Cluster, or remove the spread constraint",
    "Blocked": "wait, or allow the cluster again: trimtab unblock {workload} {cluster}",
    "Evicting": "wait until the eviction has ended",
    "NotDecided": "the Placement that the policy refers to must select the cluster: trimtab explain placement/NAME",
    "AntiAffinityGroupPresent": "move the other workload of the anti-affinity group out of the cluster",
    "Deleting": "nothing: the cluster leaves the fleet",
}
TAINT_HINTS = {
    NOT_READY_TAINT: "wait until the cluster is ready; what is wrong: trimtab explain cluster/{cluster}",
    UNREACHABLE_TAINT: "wait until the cluster can be reached; what is wrong: trimtab explain cluster/{cluster}",
    CORDON_TAINT: "uncordon it: trimtab uncordon-cluster {cluster}",
}
"""Taints that the control plane sets: who removes one by hand gets it back, or ends a drain."""
OTHER_GROUP = (
    "name the cluster in the affinity group {group}, which is in use (placement.clusterAffinities), or make an earlier "
    "group fit"
)
DECIDE_AGAIN = "nothing keeps it out any more; a new decision may choose it: trimtab rebalance {workload}{namespace}"
TAINT = re.compile(r"untolerated taint \{([^=:}]+)")
MAX_LISTED = 10


def has_taint_obstacle(explanation: Explanation) -> bool:
    """Whether `change_lines` needs the clusters of today to tell which obstacles are left."""
    return any(TAINT.search(one.message) for cluster in explanation.clusters for one in refusals_of(cluster))


def change_lines(
    binding: Binding, explanation: Explanation, clusters: Mapping[str, Cluster] | None = None
) -> Iterator[str]:
    """For the rejected clusters, every obstacle and what removes it; clusters with the same obstacle share a line.

    A decision may be old. What the binding and the clusters of today show to be over is not named any more.
    """
    rejected = [cluster for cluster in explanation.clusters if cluster.refused is not None]
    if not rejected:
        return
    clusters_by_hint: dict[str, list[str]] = {}
    for cluster in sorted(rejected, key=lambda cluster: cluster.name):
        for hint in hints_for(binding, cluster, explanation.affinity_name, (clusters or {}).get(cluster.name)):
            clusters_by_hint.setdefault(hint, []).append(cluster.name)
    yield "To be chosen:"
    for hint, names in list(clusters_by_hint.items())[:MAX_LISTED]:
        more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        yield f"  {', '.join(names[:MAX_LISTED])}{more}: {hint}"
    if len(clusters_by_hint) > MAX_LISTED:
        yield f"  ... and {len(clusters_by_hint) - MAX_LISTED} more; -o json has all"


def refusals_of(cluster: ClusterExplanation) -> tuple[ClusterRejection, ...]:
    return cluster.rejections or ((cluster.refused,) if cluster.refused is not None else ())


def hints_for(binding: Binding, cluster: ClusterExplanation, group: str, today: Cluster | None) -> Iterator[str]:
    resource = binding.spec.resource
    workload = f"{resource.kind.lower()}/{resource.name}"
    refusals = refusals_of(cluster)
    left = [refusal for refusal in refusals if not is_over(refusal, cluster.name, binding, today)]
    if refusals and not left:
        yield DECIDE_AGAIN.format(workload=workload, namespace=namespace_flag(binding))
    for refusal in left:
        taint = taint_of(refusal) or "KEY"
        hint = TAINT_HINTS.get(taint) or HINTS.get(refusal.code)
        if group and refusal.code == "AffinityMismatch":
            hint = OTHER_GROUP
        if hint is None:
            yield f"the filter {refusal.plugin} must accept it: {refusal.message}"
        else:
            yield hint.format(cluster=cluster.name, kind=resource.kind, workload=workload, taint=taint, group=group)


def is_over(refusal: ClusterRejection, cluster: str, binding: Binding, today: Cluster | None) -> bool:
    """Whether the obstacle of an earlier decision is gone: the eviction has ended, or the taint was removed."""
    if refusal.code == "Evicting":
        return all(task.from_cluster != cluster for task in binding.spec.graceful_eviction_tasks)
    taint = taint_of(refusal)
    return bool(taint) and today is not None and all(one.key != taint for one in today.spec.taints)


def taint_of(refusal: ClusterRejection) -> str:
    """The key of the taint that a refusal names; empty when it names none."""
    match = TAINT.search(refusal.message)
    return match.group(1) if match else ""


def namespace_flag(binding: Binding) -> str:
    namespace = binding.spec.resource.namespace
    return f" -n {namespace}" if namespace not in ("", "default") else ""


def kept_copy_lines(binding: Binding) -> Iterator[str]:
    """What `trimtab purge` would do for each copy that a failover has kept."""
    resource = binding.spec.resource
    namespace = namespace_flag(binding)
    for task in binding.spec.graceful_eviction_tasks:
        if task.suppress_deletion:
            count = plural(task.replicas, "replica") if task.replicas else "the object"
            name = f"{resource.kind.lower()}/{resource.name}"
            yield (
                f"An old copy is kept in {task.from_cluster} (purge mode Never). To delete it there, {count}: "
                f"trimtab purge {name} {task.from_cluster}{namespace}"
            )
