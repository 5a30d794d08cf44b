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
from trimtab.simulate.workloads.adoption import ORPHAN_PODS, claim_children, orphan_trigger
from trimtab.simulate.workloads.owned_pods import (
    PODS_BY_OWNER,
    AlwaysWritten,
    PodIdentity,
    active_pods,
    count_pods,
    new_child_names,
    owner_trigger,
    pod_from,
    raw_of,
    scaled_value,
    seconds_until_available,
    sort_oldest_first,
    update_status,
)
from trimtab.simulate.workloads.registry import workload
from trimtab.simulate.workloads.revisions import HASH_LABEL, RevisionHistory, delete_old_revisions, revision_history

GENERATION_LABEL = "pod-template-generation"
DAEMON_TOLERATIONS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""Tolerations that every daemon pod gets in addition to those of its template."""


class DaemonSetState(NamedTuple):
    """A DaemonSet and its pods by node."""

    wanted: DaemonSet
    raw: Raw
    history: RevisionHistory
    nodes: Sequence[Node]
    """Nodes that should have a pod."""
    pods: dict[str, list[Pod]]

    def is_updated(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(HASH_LABEL) == self.history.template_hash

    @property
    def max_surge(self) -> int:
        """How many nodes may have a second pod during an update."""
        strategy = self.wanted.spec.update_strategy
        rolling = strategy.rolling_update if strategy.type != "OnDelete" else None
        return scaled_value(rolling.max_surge if rolling else None, len(self.nodes), round_up=True, default=0)


def _daemonsets_for_node(old: Node | None, new: Node | None, view: View) -> Iterator[Key]:
    if old is not None and new is not None and (old.metadata.labels, old.spec) == (new.metadata.labels, new.spec):
        return
    for one in view.all(DaemonSet):
        yield Key(kind_of(one).id, one.namespace, one.name)


@workload(
    DaemonSet,
    writes=["Pod", "ControllerRevision", "status"],
    triggers=[
        owner_trigger(DaemonSet, Pod),
        orphan_trigger(DaemonSet, Pod),
        owner_trigger(DaemonSet, ControllerRevision),
        Trigger(Node, _daemonsets_for_node),
    ],
)
def daemonset(wanted: DaemonSet, view: View) -> Iterator[Effect]:
    claim = claim_children(
        wanted,
        view.by_index(PODS_BY_OWNER, wanted.metadata.uid),
        view.by_index(ORPHAN_PODS, wanted.metadata.namespace),
    )
    yield from claim.effects
    state = _observe(wanted, claim.children, view)
    if wanted.metadata.deletion_timestamp is None:
        yield from state.history.effects
        step = [*_create_missing(state, view), *_delete_surplus(state, view)]
        yield from step or _roll_out(state, view)
    yield from _update_status(state, view)
    in_use = {f"{wanted.name}-{pod.metadata.labels.get(HASH_LABEL)}" for pods in state.pods.values() for pod in pods}
    yield from delete_old_revisions(state.history, in_use, wanted.spec.revision_history_limit)


def _observe(wanted: DaemonSet, owned: Sequence[Pod], view: View) -> DaemonSetState:
    spec = wanted.spec.template.spec
    nodes = [node for node in view.all(Node) if _should_run(spec, node)]
    pods: dict[str, list[Pod]] = {}
    for pod in owned:
        pods.setdefault(pod.spec.node_name or _target_node(pod), []).append(pod)
    return DaemonSetState(wanted, raw_of(wanted, view), revision_history(wanted, view), nodes, pods)


def _should_run(spec: PodSpec, node: Node) -> bool:
    labels = node.metadata.labels
    if spec.node_name and spec.node_name != node.name:
        return False
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    required = required_selector(spec)
    if required is not None and not required.matches(labels, {"metadata.name": node.name}):
        return False
    tolerations = (*spec.tolerations, *(Toleration(key=k, operator="Exists", effect=e) for k, e in DAEMON_TOLERATIONS))
    return first_untolerated_taint(node.spec.taints, tolerations, ("NoSchedule", "NoExecute")) is None


def _target_node(pod: Pod) -> str:
    """The node for which an unbound daemon pod was created."""
    required = required_selector(pod.spec)
    for term in required.node_selector_terms if required else ():
        for rule in term.match_fields:
            if rule.key == "metadata.name" and rule.values:
                return rule.values[0]
    return ""


def _create_missing(state: DaemonSetState, view: View) -> Iterator[Effect]:
    uncovered = [
        node for node in state.nodes if not [pod for pod in state.pods.get(node.name, ()) if not pod.is_terminal]
    ]
    for name, node in zip(new_child_names(state.wanted, view, len(uncovered)), uncovered, strict=True):
        yield Ensure(_new_pod(state, name, node.name))


def _new_pod(state: DaemonSetState, name: str, node: str) -> Raw:
    """A pod whose node affinity lets the scheduler bind it to this node only."""
    generation = (state.raw["metadata"].get("annotations") or {}).get("deprecated.daemonset.template.generation")
    labels = {HASH_LABEL: state.history.template_hash} | ({GENERATION_LABEL: generation} if generation else {})
    pod = pod_from(state.raw["spec"]["template"], state.wanted, PodIdentity(name, labels))
    spec = pod["spec"]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    tolerations = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in DAEMON_TOLERATIONS]
    present = [one for one in spec.get("tolerations") or () if one not in tolerations]
    additions = {"affinity": {**affinity, "nodeAffinity": node_affinity}, "tolerations": present + tolerations}
    return {**pod, "spec": {**spec, **additions}}


def _delete_surplus(state: DaemonSetState, view: View) -> Iterator[Effect]:
    wanted = {node.name for node in state.nodes}
    for node, pods in state.pods.items():
        active = sorted(active_pods(pods), key=lambda pod: (not pod.spec.node_name, pod.metadata.name))
        for pod in _surplus_pods(state, active, view) if node in wanted else active:
            yield Delete(pod)
        for pod in pods:
            if pod.is_terminal and pod.metadata.deletion_timestamp is None:
                yield Delete(pod)


def _surplus_pods(state: DaemonSetState, active: Sequence[Pod], view: View) -> Sequence[Pod]:
    """All but one; with surge an outdated one stays as well until its replacement is available."""
    if len(active) < 2 or not state.max_surge:
        return active[1:]
    new, old = _split_by_template(state, active)
    surplus = [*new[1:], *old[1:]]
    if new and old and (not old[0].is_ready or _is_available(new[0], state, view)):
        surplus.append(old[0])
    return surplus


def _split_by_template(state: DaemonSetState, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
    """(pods of the present template, pods of older ones), each with the oldest first."""
    ordered = sort_oldest_first(pods)
    return [pod for pod in ordered if state.is_updated(pod)], [pod for pod in ordered if not state.is_updated(pod)]


def _roll_out(state: DaemonSetState, view: View) -> Iterator[Effect]:
    if state.wanted.spec.update_strategy.type == "OnDelete":
        return
    yield from _create_replacements(state, view) if state.max_surge else _delete_outdated(state, view)


def _create_replacements(state: DaemonSetState, view: View) -> Iterator[Effect]:
    """Create pods of the new template beside older ones: where those are not available at once, else on `maxSurge` nodes at a time."""
    surging = 0
    at_once: list[str] = []
    waiting: list[str] = []
    for node in state.nodes:
        new, old = _split_by_template(state, active_pods(state.pods.get(node.name, ())))
        if new and old:
            surging += 1
            if wait := seconds_until_available(new[0], state.wanted.spec.min_ready_seconds, view.now):
                yield RequeueAfter(wait)
        elif old:
            (waiting if _is_available(old[0], state, view) else at_once).append(node.name)
    nodes = [*at_once, *waiting[: max(0, state.max_surge - surging)]]
    for name, node_name in zip(new_child_names(state.wanted, view, len(nodes)), nodes, strict=True):
        yield Ensure(_new_pod(state, name, node_name))


def _delete_outdated(state: DaemonSetState, view: View) -> Iterator[Effect]:
    """Delete pods of older templates: unavailable ones at once, others within `maxUnavailable`."""
    rolling = state.wanted.spec.update_strategy.rolling_update
    max_unavailable = max(
        1, scaled_value(rolling.max_unavailable if rolling else None, len(state.nodes), round_up=True, default=1)
    )
    unavailable = 0
    outdated: list[Pod] = []
    for node in state.nodes:
        active = active_pods(state.pods.get(node.name, ()))
        if not any(_is_available(pod, state, view) for pod in active):
            unavailable += 1
        outdated += [pod for pod in active if not state.is_updated(pod)]
    for pod in outdated:
        if not _is_available(pod, state, view):
            yield Delete(pod)
        elif unavailable < max_unavailable:
            unavailable += 1
            yield Delete(pod)


def _is_available(pod: Pod, state: DaemonSetState, view: View) -> bool:
    return seconds_until_available(pod, state.wanted.spec.min_ready_seconds, view.now) == 0


def _update_status(state: DaemonSetState, view: View) -> Iterator[Effect]:
    wanted = {node.name for node in state.nodes}
    here = [pod for node in state.nodes for pod in sort_oldest_first(active_pods(state.pods.get(node.name, ())))[:1]]
    count = count_pods(here, state.wanted.spec.min_ready_seconds, view.now)
    misscheduled = sum(bool(active_pods(pods)) for node, pods in state.pods.items() if node not in wanted)
    updated = sum(state.is_updated(pod) for pod in here)
    yield from update_status(
        state.raw,
        {
            "currentNumberScheduled": AlwaysWritten(len(here)),
            "numberMisscheduled": AlwaysWritten(misscheduled),
            "desiredNumberScheduled": AlwaysWritten(len(state.nodes)),
            "numberReady": AlwaysWritten(count.ready),
            "observedGeneration": state.wanted.metadata.generation,
            "updatedNumberScheduled": updated,
            "numberAvailable": count.available,
            "numberUnavailable": len(state.nodes) - count.available,
        },
    )
    if count.seconds_until_next is not None:
        yield RequeueAfter(count.seconds_until_next)
