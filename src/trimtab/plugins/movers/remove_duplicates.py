"""Spread replicas of one owner that share a node over the nodes that could take them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trimtab.decide.pods.descheduling.evictor import Answer, Round
from trimtab.decide.pods.descheduling.movers import PodArgs, mover
from trimtab.decide.pods.fit.node_predicates import REPELLING, untolerated, wants
from trimtab.decide.pods.node_info import Host, Resident


class RemoveDuplicatesArgs(PodArgs):
    exclude_owner_kinds: tuple[str, ...] = ()


class DuplicateOwner(NamedTuple):
    namespace: str
    kind: str
    name: str
    images: tuple[str, ...]


@mover("RemoveDuplicates", args=RemoveDuplicatesArgs, balances=True)
def remove_duplicates(args: RemoveDuplicatesArgs, round_: Round) -> None:
    occurrences: dict[DuplicateOwner, int] = {}
    duplicates: dict[DuplicateOwner, dict[str, list[Resident]]] = {}
    for node_info in round_.scene.hosts:
        seen: set[tuple[DuplicateOwner, ...]] = set()
        for pod in _candidate_pods(node_info, args, round_):
            owners = owners_of(pod)
            for owner in owners:
                occurrences[owner] = occurrences.get(owner, 0) + 1
            if owners not in seen:
                seen.add(owners)
                continue
            for owner in owners:
                duplicates.setdefault(owner, {}).setdefault(node_info.name, []).append(pod)
    for owner, per_node in duplicates.items():
        if _evict_surplus(owner, per_node, occurrences[owner], round_) is Answer.TOTAL_LIMIT:
            return


def _candidate_pods(node_info: Host, args: RemoveDuplicatesArgs, round_: Round) -> Iterable[Resident]:
    for pod in round_.scene.pods_on(node_info.name):
        kinds = [owner.kind for owner in pod.pod.metadata.owner_references]
        if kinds and not set(kinds) & set(args.exclude_owner_kinds) and args.admit(pod) and round_.evictable(pod):
            yield pod


def owners_of(pod: Resident) -> tuple[DuplicateOwner, ...]:
    images = tuple(sorted(container.image for container in pod.pod.spec.containers))
    references = pod.pod.metadata.owner_references
    return tuple(sorted(DuplicateOwner(pod.namespace, owner.kind, owner.name, images) for owner in references))


def _evict_surplus(
    owner: DuplicateOwner, per_node: dict[str, list[Resident]], occurrences: int, round_: Round
) -> Answer:
    """Every node keeps the average; `per_node` holds the duplicates, not the first pod of each node."""
    targets = target_nodes([pod for pods in per_node.values() for pod in pods], round_.scene.hosts)
    if targets < 2:
        return Answer.EVICTED
    average = -(-occurrences // targets)
    for pods in per_node.values():
        for pod in pods[average - 1 :]:
            if not round_.ready_to_go(pod):
                continue
            answer = round_.evict(pod, f"{owner.kind} {owner.name} has more than {average} replicas on this node")
            if answer is Answer.TOTAL_LIMIT:
                return answer
            if answer is Answer.NODE_LIMIT:
                break
    return Answer.EVICTED


def target_nodes(pods: Sequence[Resident], hosts: Sequence[Host]) -> int:
    """How many nodes could take such pods; a pod that only one node can take cannot move."""
    found: set[str] = set()
    for pod in pods:
        wanted, tolerations = wants(pod.pod.spec), pod.pod.spec.tolerations
        open_to_it = {
            node_info.name
            for node_info in hosts
            if untolerated(node_info.node.spec.taints, tolerations, REPELLING) is None and wanted(node_info)
        }
        if len(open_to_it) > 1:
            found |= open_to_it
    return len(found)
