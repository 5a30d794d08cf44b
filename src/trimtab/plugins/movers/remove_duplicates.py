"""Spread replicas of one owner that share a node over the nodes that could take them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trimtab.decide.pods.descheduling.evictor import EvictionOutcome, MoverRun
from trimtab.decide.pods.descheduling.movers import PodFilterArgs, mover
from trimtab.decide.pods.fit.node_predicates import REPELLING, first_untolerated_taint, required_node_matcher
from trimtab.decide.pods.node_info import NodeInfo, PodInfo


class RemoveDuplicatesArgs(PodFilterArgs):
    exclude_owner_kinds: tuple[str, ...] = ()


class DuplicateOwner(NamedTuple):
    namespace: str
    kind: str
    name: str
    images: tuple[str, ...]


@mover("RemoveDuplicates", args=RemoveDuplicatesArgs, balances=True)
def remove_duplicates(args: RemoveDuplicatesArgs, mover_run: MoverRun) -> None:
    occurrences: dict[DuplicateOwner, int] = {}
    duplicates: dict[DuplicateOwner, dict[str, list[PodInfo]]] = {}
    for node_info in mover_run.cluster_view.nodes:
        seen: set[tuple[DuplicateOwner, ...]] = set()
        for pod in _candidate_pods(node_info, args, mover_run):
            owners = owners_of(pod)
            for owner in owners:
                occurrences[owner] = occurrences.get(owner, 0) + 1
            if owners not in seen:
                seen.add(owners)
                continue
            for owner in owners:
                duplicates.setdefault(owner, {}).setdefault(node_info.name, []).append(pod)
    for owner, per_node in duplicates.items():
        if _evict_surplus(owner, per_node, occurrences[owner], mover_run) is EvictionOutcome.TOTAL_LIMIT:
            return


def _candidate_pods(node_info: NodeInfo, args: RemoveDuplicatesArgs, mover_run: MoverRun) -> Iterable[PodInfo]:
    for pod in mover_run.cluster_view.pods_on(node_info.name):
        kinds = [owner.kind for owner in pod.pod.metadata.owner_references]
        if (
            kinds
            and not set(kinds) & set(args.exclude_owner_kinds)
            and args.selects(pod)
            and mover_run.is_evictable(pod)
        ):
            yield pod


def owners_of(pod: PodInfo) -> tuple[DuplicateOwner, ...]:
    images = tuple(sorted(container.image for container in pod.pod.spec.containers))
    references = pod.pod.metadata.owner_references
    return tuple(sorted(DuplicateOwner(pod.namespace, owner.kind, owner.name, images) for owner in references))


def _evict_surplus(
    owner: DuplicateOwner, per_node: dict[str, list[PodInfo]], occurrences: int, mover_run: MoverRun
) -> EvictionOutcome:
    """Every node keeps the average; `per_node` holds the duplicates, not the first pod of each node."""
    targets = target_nodes([pod for pods in per_node.values() for pod in pods], mover_run.cluster_view.nodes)
    if targets < 2:
        return EvictionOutcome.EVICTED
    average = -(-occurrences // targets)
    for pods in per_node.values():
        for pod in pods[average - 1 :]:
            if not mover_run.passes_pre_eviction_filter(pod):
                continue
            answer = mover_run.evict(pod, f"{owner.kind} {owner.name} has more than {average} replicas on this node")
            if answer is EvictionOutcome.TOTAL_LIMIT:
                return answer
            if answer is EvictionOutcome.NODE_LIMIT:
                break
    return EvictionOutcome.EVICTED


def target_nodes(pods: Sequence[PodInfo], nodes: Sequence[NodeInfo]) -> int:
    """How many nodes could take such pods; a pod that only one node can take cannot move."""
    found: set[str] = set()
    for pod in pods:
        wanted, tolerations = required_node_matcher(pod.pod.spec), pod.pod.spec.tolerations
        open_to_it = {
            node_info.name
            for node_info in nodes
            if first_untolerated_taint(node_info.node.spec.taints, tolerations, REPELLING) is None and wanted(node_info)
        }
        if len(open_to_it) > 1:
            found |= open_to_it
    return len(found)
