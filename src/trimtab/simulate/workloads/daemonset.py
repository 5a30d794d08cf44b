"""The DaemonSet controller: one pod on every eligible node."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.apps import ControllerRevision, DaemonSet
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod, PodSpec, Toleration
from trimtab.api.value import Key, Raw
from trimtab.controllers.contract import Delete, Effect, Ensure, RequeueAfter, Trigger, View
from trimtab.decide.pods.fit.node_predicates import first_untolerated_taint, required_selector
from trimtab.simulate.workloads.owned_pods import (
    PODS_OF,
    Always,
    Kid,
    fresh_names,
    living,
    pod_from,
    raw_of,
    seconds_to_available,
    share,
    tally,
    when_child_changes,
    with_status,
)
from trimtab.simulate.workloads.registry import workload
from trimtab.simulate.workloads.revisions import HASH, History, forgotten, history

GENERATION = "pod-template-generation"
TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""Tolerations that every daemon pod gets in addition to those of its template."""


class Watchmen(NamedTuple):
    """A DaemonSet and its pods by node."""

    wanted: DaemonSet
    raw: Raw
    past: History
    nodes: Sequence[Node]
    """Nodes that should have a pod."""
    pods: dict[str, list[Pod]]


def _when_nodes_change(old: Node | None, new: Node | None, view: View) -> Iterator[Key]:
    if old is not None and new is not None and (old.metadata.labels, old.spec) == (new.metadata.labels, new.spec):
        return
    for one in view.all(DaemonSet):
        yield Key(kind_of(one).id, one.namespace, one.name)


@workload(
    DaemonSet,
    writes=["Pod", "ControllerRevision", "status"],
    wakes=[
        when_child_changes(DaemonSet, Pod),
        when_child_changes(DaemonSet, ControllerRevision),
        Trigger(Node, _when_nodes_change),
    ],
)
def daemonset(wanted: DaemonSet, view: View) -> Iterator[Effect]:
    state = _survey(wanted, view)
    if wanted.metadata.deletion_timestamp is None:
        yield from state.past.wishes
        step = [*_missing(state, view), *_surplus(state)]
        yield from step or _updated(state, view)
    yield from _report(state, view)
    in_use = {f"{wanted.name}-{pod.metadata.labels.get(HASH)}" for pods in state.pods.values() for pod in pods}
    yield from forgotten(state.past, in_use, wanted.spec.revision_history_limit)


def _survey(wanted: DaemonSet, view: View) -> Watchmen:
    spec = wanted.spec.template.spec
    nodes = [node for node in view.all(Node) if _should_run(spec, node)]
    pods: dict[str, list[Pod]] = {}
    for pod in view.by_index(PODS_OF, wanted.metadata.uid):
        pods.setdefault(pod.spec.node_name or _bound_for(pod), []).append(pod)
    return Watchmen(wanted, raw_of(wanted, view), history(wanted, view), nodes, pods)


def _should_run(spec: PodSpec, node: Node) -> bool:
    labels = node.metadata.labels
    if spec.node_name and spec.node_name != node.name:
        return False
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    required = required_selector(spec)
    if required is not None and not required.matches(labels, {"metadata.name": node.name}):
        return False
    tolerations = (*spec.tolerations, *(Toleration(key=k, operator="Exists", effect=e) for k, e in TOLERATED))
    return first_untolerated_taint(node.spec.taints, tolerations, ("NoSchedule", "NoExecute")) is None


def _bound_for(pod: Pod) -> str:
    """The node for which an unbound daemon pod was created."""
    required = required_selector(pod.spec)
    for term in required.node_selector_terms if required else ():
        for rule in term.match_fields:
            if rule.key == "metadata.name" and rule.values:
                return rule.values[0]
    return ""


def _missing(state: Watchmen, view: View) -> Iterator[Effect]:
    uncovered = [
        node for node in state.nodes if not [pod for pod in state.pods.get(node.name, ()) if not pod.is_terminal]
    ]
    for name, node in zip(fresh_names(state.wanted, view, len(uncovered)), uncovered, strict=True):
        yield Ensure(_pod(state, name, node.name))


def _pod(state: Watchmen, name: str, node: str) -> Raw:
    """A pod whose node affinity lets the scheduler bind it to this node only."""
    generation = (state.raw["metadata"].get("annotations") or {}).get("deprecated.daemonset.template.generation")
    labels = {HASH: state.past.mark} | ({GENERATION: generation} if generation else {})
    pod = pod_from(state.raw["spec"]["template"], state.wanted, Kid(name, labels))
    spec = pod["spec"]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    tolerations = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in TOLERATED]
    present = [one for one in spec.get("tolerations") or () if one not in tolerations]
    additions = {"affinity": {**affinity, "nodeAffinity": node_affinity}, "tolerations": present + tolerations}
    return {**pod, "spec": {**spec, **additions}}


def _surplus(state: Watchmen) -> Iterator[Effect]:
    wanted = {node.name for node in state.nodes}
    for node, pods in state.pods.items():
        active = sorted(living(pods), key=lambda pod: (not pod.spec.node_name, pod.metadata.name))
        for pod in active[1:] if node in wanted else active:
            yield Delete(pod)
        for pod in pods:
            if pod.is_terminal and pod.metadata.deletion_timestamp is None:
                yield Delete(pod)


def _updated(state: Watchmen, view: View) -> Iterator[Effect]:
    """Delete pods of older templates: unavailable ones at once, others within `maxUnavailable`."""
    if state.wanted.spec.update_strategy.type == "OnDelete":
        return
    rolling = state.wanted.spec.update_strategy.rolling_update
    max_unavailable = max(1, share(rolling.max_unavailable if rolling else None, len(state.nodes), up=True, default=1))
    unavailable = 0
    outdated: list[Pod] = []
    for node in state.nodes:
        active = living(state.pods.get(node.name, ()))
        if not any(_well(pod, state, view) for pod in active):
            unavailable += 1
        outdated += [pod for pod in active if pod.metadata.labels.get(HASH) != state.past.mark]
    for pod in outdated:
        if not _well(pod, state, view):
            yield Delete(pod)
        elif unavailable < max_unavailable:
            unavailable += 1
            yield Delete(pod)


def _well(pod: Pod, state: Watchmen, view: View) -> bool:
    return seconds_to_available(pod, state.wanted.spec.min_ready_seconds, view.now) == 0


def _report(state: Watchmen, view: View) -> Iterator[Effect]:
    wanted = {node.name for node in state.nodes}
    here = [pod for node in state.nodes for pod in living(state.pods.get(node.name, ()))[:1]]
    count = tally(here, state.wanted.spec.min_ready_seconds, view.now)
    misscheduled = sum(bool(living(pods)) for node, pods in state.pods.items() if node not in wanted)
    updated = sum(pod.metadata.labels.get(HASH) == state.past.mark for pod in here)
    yield from with_status(
        state.raw,
        {
            "currentNumberScheduled": Always(len(here)),
            "numberMisscheduled": Always(misscheduled),
            "desiredNumberScheduled": Always(len(state.nodes)),
            "numberReady": Always(count.ready),
            "observedGeneration": state.wanted.metadata.generation,
            "updatedNumberScheduled": updated,
            "numberAvailable": count.available,
            "numberUnavailable": len(state.nodes) - count.available,
        },
    )
    if count.wait is not None:
        yield RequeueAfter(count.wait)
