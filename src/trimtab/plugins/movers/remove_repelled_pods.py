"""Evict pods that violate a required anti-affinity."""

from trimtab.decide.pods.descheduling.evictor import EvictionOutcome, MoverRun
from trimtab.decide.pods.descheduling.movers import PodFilterArgs, mover
from trimtab.decide.pods.node_info import NodeInfo, PodInfo


@mover("RemovePodsViolatingInterPodAntiAffinity", args=PodFilterArgs)
def remove_repelled_pods(args: PodFilterArgs, mover_run: MoverRun) -> None:
    """The pod of lower priority is evicted; the other one can then stay."""
    hosts = {node_info.name: node_info for node_info in mover_run.cluster_view.nodes}
    on_node = {name: [pod for pod in mover_run.cluster_view.pods_on(name) if args.selects(pod)] for name in hosts}
    around = {pod.key: pod for pods in on_node.values() for pod in pods}
    for name, pods in on_node.items():
        for pod in sorted(pods, key=lambda pod: pod.traits.order):
            if not _violates_anti_affinity(pod, hosts[name], around, hosts, mover_run):
                continue
            if not mover_run.is_evictable(pod) or not mover_run.passes_pre_eviction_filter(pod):
                continue
            answer = mover_run.evict(pod, "its anti-affinity excludes a pod of the same topology domain")
            if answer is EvictionOutcome.TOTAL_LIMIT:
                return
            if answer is EvictionOutcome.NODE_LIMIT:
                break
            if answer is EvictionOutcome.EVICTED:
                del around[pod.key]


def _violates_anti_affinity(
    pod: PodInfo,
    node_info: NodeInfo,
    around: dict[tuple[str, str], PodInfo],
    nodes: dict[str, NodeInfo],
    mover_run: MoverRun,
) -> bool:
    namespaces = mover_run.cluster_view.fleet.namespaces
    return any(
        own.is_required
        and own.is_anti_affinity
        and any(
            other.name != pod.name
            and own.term.matches(other.namespace, other.labels, namespaces)
            and _share_domain(node_info, nodes[other.pod.spec.node_name], own.term.topology_key)
            for other in around.values()
        )
        for own in pod.affinity_terms
    )


def _share_domain(one: NodeInfo, other: NodeInfo, key: str) -> bool:
    """The same node always counts, with or without the label."""
    return one.name == other.name or (key in one.labels and one.labels[key] == other.labels.get(key))
