"""DaemonSets: one pod on every node that wants it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.apps import ControllerRevision, DaemonSet
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod, PodSpec, Toleration
from trimtab.api.value import Key, Raw
from trimtab.controllers.contract import Again, Gone, Make, View, Wake, Wish
from trimtab.decide.pods.fit.node_predicates import required_selector, untolerated
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
"""What a daemon puts up with, whatever its template says."""


class Watchmen(NamedTuple):
    """A DaemonSet with its pods by node, as it stands."""

    wanted: DaemonSet
    raw: Raw
    past: History
    nodes: Sequence[Node]
    """Those that should have a pod."""
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
        Wake(Node, _when_nodes_change),
    ],
)
def daemonset(wanted: DaemonSet, view: View) -> Iterator[Wish]:
    watch = _survey(wanted, view)
    if wanted.metadata.deletion_timestamp is None:
        yield from watch.past.wishes
        step = [*_missing(watch, view), *_surplus(watch)]
        yield from step or _updated(watch, view)
    yield from _report(watch, view)
    in_use = {f"{wanted.name}-{pod.metadata.labels.get(HASH)}" for pods in watch.pods.values() for pod in pods}
    yield from forgotten(watch.past, in_use, wanted.spec.revision_history_limit)


def _survey(wanted: DaemonSet, view: View) -> Watchmen:
    spec = wanted.spec.template.spec
    nodes = [node for node in view.all(Node) if _should_run(spec, node)]
    pods: dict[str, list[Pod]] = {}
    for pod in view.having(PODS_OF, wanted.metadata.uid):
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
    return untolerated(node.spec.taints, tolerations, ("NoSchedule", "NoExecute")) is None


def _bound_for(pod: Pod) -> str:
    """The node that an unbound daemon was made for."""
    required = required_selector(pod.spec)
    for term in required.node_selector_terms if required else ():
        for rule in term.match_fields:
            if rule.key == "metadata.name" and rule.values:
                return rule.values[0]
    return ""


def _missing(watch: Watchmen, view: View) -> Iterator[Wish]:
    bare = [node for node in watch.nodes if not [pod for pod in watch.pods.get(node.name, ()) if not pod.terminal]]
    for name, node in zip(fresh_names(watch.wanted, view, len(bare)), bare, strict=True):
        yield Make(_pod(watch, name, node.name))


def _pod(watch: Watchmen, name: str, node: str) -> Raw:
    """The scheduler binds it, but only to its own node."""
    generation = (watch.raw["metadata"].get("annotations") or {}).get("deprecated.daemonset.template.generation")
    labels = {HASH: watch.past.mark} | ({GENERATION: generation} if generation else {})
    pod = pod_from(watch.raw["spec"]["template"], watch.wanted, Kid(name, labels))
    spec = pod["spec"]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = dict(spec.get("affinity") or {})
    attraction = dict(affinity.get("nodeAffinity") or {})
    attraction["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    tolerations = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in TOLERATED]
    present = [one for one in spec.get("tolerations") or () if one not in tolerations]
    own = {"affinity": {**affinity, "nodeAffinity": attraction}, "tolerations": present + tolerations}
    return {**pod, "spec": {**spec, **own}}


def _surplus(watch: Watchmen) -> Iterator[Wish]:
    wanted = {node.name for node in watch.nodes}
    for node, pods in watch.pods.items():
        alive = sorted(living(pods), key=lambda pod: (not pod.spec.node_name, pod.metadata.name))
        for pod in alive[1:] if node in wanted else alive:
            yield Gone(pod)
        for pod in pods:
            if pod.terminal and pod.metadata.deletion_timestamp is None:
                yield Gone(pod)


def _updated(watch: Watchmen, view: View) -> Iterator[Wish]:
    """Pods of an older template leave, as many at a time as may be unavailable; broken ones leave at once."""
    if watch.wanted.spec.update_strategy.type == "OnDelete":
        return
    how = watch.wanted.spec.update_strategy.rolling_update
    most = max(1, share(how.max_unavailable if how else None, len(watch.nodes), up=True, default=1))
    away = 0
    outdated: list[Pod] = []
    for node in watch.nodes:
        alive = living(watch.pods.get(node.name, ()))
        if not any(_well(pod, watch, view) for pod in alive):
            away += 1
        outdated += [pod for pod in alive if pod.metadata.labels.get(HASH) != watch.past.mark]
    for pod in outdated:
        if not _well(pod, watch, view):
            yield Gone(pod)
        elif away < most:
            away += 1
            yield Gone(pod)


def _well(pod: Pod, watch: Watchmen, view: View) -> bool:
    return seconds_to_available(pod, watch.wanted.spec.min_ready_seconds, view.now) == 0


def _report(watch: Watchmen, view: View) -> Iterator[Wish]:
    wanted = {node.name for node in watch.nodes}
    here = [pod for node in watch.nodes for pod in living(watch.pods.get(node.name, ()))[:1]]
    count = tally(here, watch.wanted.spec.min_ready_seconds, view.now)
    astray = sum(bool(living(pods)) for node, pods in watch.pods.items() if node not in wanted)
    updated = sum(pod.metadata.labels.get(HASH) == watch.past.mark for pod in here)
    yield from with_status(
        watch.raw,
        {
            "currentNumberScheduled": Always(len(here)),
            "numberMisscheduled": Always(astray),
            "desiredNumberScheduled": Always(len(watch.nodes)),
            "numberReady": Always(count.ready),
            "observedGeneration": watch.wanted.metadata.generation,
            "updatedNumberScheduled": updated,
            "numberAvailable": count.available,
            "numberUnavailable": len(watch.nodes) - count.available,
        },
    )
    if count.wait is not None:
        yield Again(count.wait)
