"""Evict pods that violate topology spread constraints, so that they move to emptier domains."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import NamedTuple

from trimtab.api.kinds.native.pod import PodSpec, Toleration, TopologySpreadConstraint
from trimtab.api.selectors import LabelSelector
from trimtab.decide.pods.affinity.affinity_terms import HashableSelector, hashable_selector
from trimtab.decide.pods.descheduling.evictor import MoverRun
from trimtab.decide.pods.descheduling.movers import MoverArgs, NamespaceFilter, evict_pods, mover
from trimtab.decide.pods.fit.node_predicates import (
    REPELLING,
    first_untolerated_taint,
    node_requirements,
    required_node_matcher,
)
from trimtab.decide.pods.node_info import NodeInfo, PodInfo


class TopologySpreadArgs(MoverArgs):
    constraints: tuple[str, ...] = ("DoNotSchedule",)
    namespaces: NamespaceFilter = NamespaceFilter()
    label_selector: LabelSelector | None = None
    topology_balance_node_fit: bool = True

    def validation_error(self) -> str:
        unknown = set(self.constraints) - {"DoNotSchedule", "ScheduleAnyway"}
        return f"constraints: there is no {min(unknown)}" if unknown else self.namespaces.validation_error()


class SpreadGroup(NamedTuple):
    """A constraint of some pods of one namespace; pods with equal constraints are spread together."""

    topology_key: str
    max_skew: int
    selector: HashableSelector | None
    requirements: object
    """What the pods require of nodes, where nodes they cannot use do not count."""
    tolerations: tuple[Toleration, ...] | None
    """What they tolerate, where nodes with other taints do not count."""


class SpreadDomain(NamedTuple):
    value: str
    pods: list[PodInfo]


@mover("RemovePodsViolatingTopologySpreadConstraint", args=TopologySpreadArgs, balances=True)
def spread_pods(args: TopologySpreadArgs, mover_run: MoverRun) -> None:
    chosen: dict[tuple[str, str], PodInfo] = {}
    for namespace, pods in _by_namespace(args, mover_run).items():
        if args.namespaces.selects(namespace):
            for group, counts in _spread_groups(pods, args.constraints).items():
                domains = _domains(group, counts, pods, mover_run)
                chosen |= {pod.key: pod for pod in _surplus(group, counts, domains, args, mover_run)}
    evict_pods(((pod, "its topology domain has more pods than maxSkew allows") for pod in chosen.values()), mover_run)


def _by_namespace(args: TopologySpreadArgs, mover_run: MoverRun) -> dict[str, list[PodInfo]]:
    """The pods that count: upstream only evictable ones, which ignores protected pods; in our profile all."""
    found: dict[str, list[PodInfo]] = {}
    for node_info in mover_run.cluster_view.nodes:
        for pod in mover_run.cluster_view.pods_on(node_info.name):
            meant = args.label_selector is None or args.label_selector.matches(pod.labels)
            if meant and (mover_run.profile.descheduler_simulates_moves or mover_run.is_evictable(pod)):
                found.setdefault(pod.namespace, []).append(pod)
    return found


NodePredicate = Callable[[NodeInfo], bool]
"""Whether a node counts for a spread group."""


def _spread_groups(pods: Sequence[PodInfo], kinds: Sequence[str]) -> dict[SpreadGroup, NodePredicate]:
    found: dict[SpreadGroup, NodePredicate] = {}
    for pod in pods:
        for constraint in pod.pod.spec.topology_spread_constraints:
            if constraint.when_unsatisfiable in kinds:
                group = _spread_group(pod, constraint)
                found.setdefault(group, _node_predicate(group, pod.pod.spec))
    return found


def _spread_group(pod: PodInfo, constraint: TopologySpreadConstraint) -> SpreadGroup:
    spec = pod.pod.spec
    return SpreadGroup(
        constraint.topology_key,
        constraint.max_skew,
        hashable_selector(constraint.label_selector, pod.labels, constraint.match_label_keys),
        None if constraint.node_affinity_policy == "Ignore" else node_requirements(spec),
        spec.tolerations if constraint.node_taints_policy == "Honor" else None,
    )


def _node_predicate(group: SpreadGroup, spec: PodSpec) -> NodePredicate:
    wanted = required_node_matcher(spec) if group.requirements is not None else None

    def counts(node_info: NodeInfo) -> bool:
        if wanted is not None and not wanted(node_info):
            return False
        return (
            group.tolerations is None
            or first_untolerated_taint(node_info.node.spec.taints, group.tolerations, REPELLING) is None
        )

    return counts


def _domains(
    group: SpreadGroup, counts: NodePredicate, pods: Sequence[PodInfo], mover_run: MoverRun
) -> dict[str, list[PodInfo]]:
    """The pods of each domain; a domain without pods counts if a node of it does."""
    key = group.topology_key
    labels = {
        node_info.name: node_info.labels[key] for node_info in mover_run.cluster_view.nodes if key in node_info.labels
    }
    found: dict[str, list[PodInfo]] = {
        node_info.labels[key]: []
        for node_info in mover_run.cluster_view.nodes
        if node_info.name in labels and counts(node_info)
    }
    for pod in pods:
        node = pod.pod.spec.node_name
        if (
            node in labels
            and not pod.is_terminating
            and group.selector is not None
            and group.selector.matches(pod.labels)
        ):
            found.setdefault(labels[node], []).append(pod)
    return found


def _surplus(
    group: SpreadGroup,
    counts: NodePredicate,
    grouped: dict[str, list[PodInfo]],
    args: TopologySpreadArgs,
    mover_run: MoverRun,
) -> Iterator[PodInfo]:
    """Pods to evict from the fullest domains, as if each then moved to the emptiest."""
    sizes = [len(pods) for pods in grouped.values()]
    if not sizes or max(sizes) - min(sizes) <= group.max_skew:
        return
    average = sum(sizes) / len(sizes)
    order = _eviction_order(mover_run)
    domains = sorted(
        (SpreadDomain(value, sorted(pods, key=order)) for value, pods in grouped.items()),
        key=lambda domain: (len(domain.pods), domain.value),
    )
    fits = _fits_below(group, counts, domains, average, mover_run)
    low, high = 0, len(domains) - 1
    while low < high:
        if len(domains[high].pods) <= average:
            high -= 1
        fullest, emptiest = domains[high].pods, domains[low].pods
        skew = len(fullest) - len(emptiest)
        moves = min(ceil(len(fullest) - average), ceil(average - len(emptiest)), ceil((skew - group.max_skew) / 2))
        if skew <= group.max_skew or moves <= 0:
            low += 1
            continue
        fullest.sort(key=fits)
        moved = fullest[-moves:]
        yield from (
            pod for pod in moved if mover_run.is_evictable(pod) and (not args.topology_balance_node_fit or fits(pod))
        )
        del fullest[-moves:]
        emptiest += moved


def _eviction_order(mover_run: MoverRun) -> Callable[[PodInfo], tuple[bool, bool, int, int]]:
    """Pods are taken from the end; upstream puts the most important there, our profile the least important."""
    sign = -1 if mover_run.profile.descheduler_simulates_moves else 1

    def order(pod: PodInfo) -> tuple[bool, bool, int, int]:
        spec = pod.pod.spec
        tied_to_nodes = bool(spec.node_selector) or (
            spec.affinity is not None and spec.affinity.node_affinity is not None
        )
        return mover_run.is_evictable(pod), not tied_to_nodes, sign * pod.traits.order[0], sign * pod.priority

    return order


def _fits_below(
    group: SpreadGroup, counts: NodePredicate, domains: Sequence[SpreadDomain], average: float, mover_run: MoverRun
) -> Callable[[PodInfo], bool]:
    """Whether a node of a domain that is below average could take a pod."""
    sparse = {domain.value for domain in domains if len(domain.pods) < average}
    nodes = frozenset(
        node_info.name
        for node_info in mover_run.cluster_view.nodes
        if node_info.labels.get(group.topology_key) in sparse and counts(node_info)
    )
    known: dict[tuple[str, str], bool] = {}

    def fits(pod: PodInfo) -> bool:
        if pod.key not in known:
            known[pod.key] = mover_run.fits_among(pod, nodes)
        return known[pod.key]

    return fits
