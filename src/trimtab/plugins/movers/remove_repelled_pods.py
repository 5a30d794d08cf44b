"""Evict pods that violate a required anti-affinity."""

from trimtab.decide.pods.descheduling.evictor import Answer, Round
from trimtab.decide.pods.descheduling.movers import PodArgs, mover
from trimtab.decide.pods.node_info import Host, Resident


@mover("RemovePodsViolatingInterPodAntiAffinity", args=PodArgs)
def remove_repelled_pods(args: PodArgs, round_: Round) -> None:
    """The pod of lower priority is evicted; the other one can then stay."""
    hosts = {node_info.name: node_info for node_info in round_.scene.hosts}
    on_node = {name: [pod for pod in round_.scene.pods_on(name) if args.admit(pod)] for name in hosts}
    around = {pod.key: pod for pods in on_node.values() for pod in pods}
    for name, pods in on_node.items():
        for pod in sorted(pods, key=lambda pod: pod.traits.order):
            if not _violates_anti_affinity(pod, hosts[name], around, hosts, round_):
                continue
            if not round_.evictable(pod) or not round_.ready_to_go(pod):
                continue
            answer = round_.evict(pod, "must stay away from a pod that is near")
            if answer is Answer.TOTAL_LIMIT:
                return
            if answer is Answer.NODE_LIMIT:
                break
            if answer is Answer.EVICTED:
                del around[pod.key]


def _violates_anti_affinity(
    pod: Resident, node_info: Host, around: dict[tuple[str, str], Resident], hosts: dict[str, Host], round_: Round
) -> bool:
    namespaces = round_.scene.fleet.namespaces
    return any(
        own.required
        and own.repels
        and any(
            other.name != pod.name
            and own.term.covers(other.namespace, other.labels, namespaces)
            and _share_domain(node_info, hosts[other.pod.spec.node_name], own.term.topology_key)
            for other in around.values()
        )
        for own in pod.carried
    )


def _share_domain(one: Host, other: Host, key: str) -> bool:
    """The same node always counts, with or without the label."""
    return one.name == other.name or (key in one.labels and one.labels[key] == other.labels.get(key))
