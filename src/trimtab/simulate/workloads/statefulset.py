"""The StatefulSet controller: pods with stable names, created, updated and deleted in order."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trimtab.api.kinds.native.apps import ControllerRevision, StatefulSet
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.storage import PersistentVolumeClaim
from trimtab.api.value import Raw
from trimtab.controllers.contract import Delete, Effect, Ensure, RequeueAfter, View
from trimtab.simulate.workloads.owned_pods import (
    PODS_OF,
    Always,
    Kid,
    pod_from,
    raw_of,
    seconds_to_available,
    share,
    tally,
    when_child_changes,
    with_status,
)
from trimtab.simulate.workloads.registry import workload
from trimtab.simulate.workloads.revisions import HASH, REVISIONS, History, forgotten, history


class Row(NamedTuple):
    """A StatefulSet and its pods by ordinal."""

    wanted: StatefulSet
    raw: Raw
    first: int
    pods: Mapping[int, Pod]
    past: History
    current: str
    """The revision of pods below the partition, and of all pods once an update is complete."""

    @property
    def replicas(self) -> int:
        return 1 if self.wanted.spec.replicas is None else self.wanted.spec.replicas

    @property
    def ordinals(self) -> range:
        return range(self.first, self.first + self.replicas)

    @property
    def parallel(self) -> bool:
        return self.wanted.spec.pod_management_policy == "Parallel"

    @property
    def partition(self) -> int:
        rolling = self.wanted.spec.update_strategy.rolling_update
        return (rolling.partition or 0) if rolling else 0

    @property
    def on_delete(self) -> bool:
        return self.wanted.spec.update_strategy.type == "OnDelete"


@workload(
    StatefulSet,
    writes=["Pod", "ControllerRevision", "PersistentVolumeClaim", "status"],
    wakes=[when_child_changes(StatefulSet, Pod), when_child_changes(StatefulSet, ControllerRevision)],
)
def statefulset(wanted: StatefulSet, view: View) -> Iterator[Effect]:
    state = _survey(wanted, view)
    if wanted.metadata.deletion_timestamp is None:
        yield from state.past.wishes
        yield from _claims(state, view)
        step = list(_made(state, view)) or list(_removed(state, view)) or list(_updated(state, view))
        yield from step
    yield from _report(state, view)
    if wanted.metadata.deletion_timestamp is None:
        in_use = {pod.metadata.labels.get(HASH, "") for pod in state.pods.values()} | {state.current}
        yield from forgotten(state.past, in_use, wanted.spec.revision_history_limit)


def _survey(wanted: StatefulSet, view: View) -> Row:
    raw = raw_of(wanted, view)
    revisions = history(wanted, view)
    stem = f"{wanted.name}-"
    pods = {}
    for pod in view.by_index(PODS_OF, wanted.metadata.uid):
        tail = pod.name.removeprefix(stem)
        if pod.name.startswith(stem) and tail.isdigit():
            pods[int(tail)] = pod
    first = int((raw["spec"].get("ordinals") or {}).get("start") or 0)
    return Row(wanted, raw, first, pods, revisions, wanted.status.current_revision or revisions.name)


def _well(pod: Pod, state: Row, view: View) -> bool:
    return (
        pod.metadata.deletion_timestamp is None
        and seconds_to_available(pod, state.wanted.spec.min_ready_seconds, view.now) == 0
    )


def _made(state: Row, view: View) -> Iterator[Effect]:
    """Create missing pods, lowest ordinal first; in order, each waits until all before it are available."""
    for ordinal in state.ordinals:
        pod = state.pods.get(ordinal)
        if pod is None:
            yield Ensure(_pod(state, ordinal, view))
        elif pod.is_terminal and pod.metadata.deletion_timestamp is None:
            yield Delete(pod)
        elif state.parallel or _well(pod, state, view):
            continue
        elif pod.metadata.deletion_timestamp is None:
            return
        if not state.parallel:
            return


def _removed(state: Row, view: View) -> Iterator[Effect]:
    """Delete surplus pods, highest ordinal first; in order, one at a time and only when the others are available."""
    staying = [pod for ordinal, pod in state.pods.items() if ordinal in state.ordinals]
    for ordinal in sorted(set(state.pods) - set(state.ordinals), reverse=True):
        pod = state.pods[ordinal]
        if pod.metadata.deletion_timestamp is None and (
            state.parallel or all(_well(one, state, view) for one in staying)
        ):
            yield Delete(pod)
        if not state.parallel:
            return


def _updated(state: Row, view: View) -> Iterator[Effect]:
    """Delete pods of older templates, highest ordinal first, within `maxUnavailable`."""
    if state.on_delete or len(state.pods) != state.replicas:
        return
    if not state.parallel and any(not _well(pod, state, view) for pod in state.pods.values()):
        broken = [pod for pod in state.pods.values() if not _well(pod, state, view)]
        if any(pod.metadata.labels.get(HASH) == state.past.name or pod.metadata.deletion_timestamp for pod in broken):
            return
    rolling = state.wanted.spec.update_strategy.rolling_update
    max_unavailable = max(1, share(rolling.max_unavailable if rolling else None, state.replicas, up=True, default=1))
    unavailable = sum(not _well(pod, state, view) for pod in state.pods.values())
    for ordinal in sorted(state.ordinals, reverse=True):
        pod = state.pods[ordinal]
        if ordinal - state.first < state.partition:
            return
        if pod.metadata.labels.get(HASH) == state.past.name:
            continue
        is_unavailable = not _well(pod, state, view)
        if not is_unavailable and unavailable >= max_unavailable:
            return
        if pod.metadata.deletion_timestamp is None:
            yield Delete(pod)
            unavailable += not is_unavailable


def _template_for(state: Row, ordinal: int, view: View) -> tuple[Raw, str]:
    """The template and revision of a pod; below the partition, and before the update reached it, the old ones."""
    updating = state.current != state.past.name
    if not updating or (not state.on_delete and ordinal - state.first >= state.partition):
        return state.raw["spec"]["template"], state.past.name
    for revision in view.by_index(REVISIONS, state.wanted.metadata.uid):
        if revision.name == state.current:
            kept = dict(raw_of(revision, view)["data"]["spec"]["template"])
            kept.pop("$patch", None)
            return kept, state.current
    return state.raw["spec"]["template"], state.past.name


def _pod(state: Row, ordinal: int, view: View) -> Raw:
    name = f"{state.wanted.name}-{ordinal}"
    template, revision = _template_for(state, ordinal, view)
    labels = {HASH: revision, "statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
    pod = pod_from(
        template,
        state.wanted,
        Kid(name, labels, hostname=name, subdomain=state.wanted.spec.service_name),
    )
    volumes = [
        {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": _claim_name(claim, name)}}
        for claim in state.raw["spec"].get("volumeClaimTemplates") or ()
    ]
    taken = {volume["name"] for volume in volumes}
    others = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in taken]
    return {**pod, "spec": {**pod["spec"], "volumes": others + volumes}} if volumes else pod


def _claim_name(claim: Raw, pod: str) -> str:
    return f"{claim['metadata']['name']}-{pod}"


def _claims(state: Row, view: View) -> Iterator[Effect]:
    for claim in state.raw["spec"].get("volumeClaimTemplates") or ():
        for ordinal in state.ordinals:
            name = _claim_name(claim, f"{state.wanted.name}-{ordinal}")
            if view.get(PersistentVolumeClaim, state.wanted.namespace, name) is None:
                labels = (state.raw["spec"]["selector"] or {}).get("matchLabels") or {}
                yield Ensure(
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "metadata": {"name": name, "namespace": state.wanted.namespace, "labels": labels},
                        "spec": claim["spec"],
                    }
                )


def _report(state: Row, view: View) -> Iterator[Effect]:
    pods = [pod for pod in state.pods.values() if not pod.is_terminal]
    here = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    count = tally(pods, state.wanted.spec.min_ready_seconds, view.now)
    current = sum(pod.metadata.labels.get(HASH) == state.current for pod in here)
    updated = sum(pod.metadata.labels.get(HASH) == state.past.name for pod in here)
    revision = state.current
    complete = not state.on_delete and updated == len(pods) == count.ready == state.replicas
    if complete:
        current, revision = updated, state.past.name
    yield from with_status(
        state.raw,
        {
            "observedGeneration": state.wanted.metadata.generation,
            "replicas": Always(len(pods)),
            "readyReplicas": count.ready,
            "currentReplicas": current,
            "updatedReplicas": updated,
            "currentRevision": revision,
            "updateRevision": state.past.name,
            "collisionCount": Always((state.raw.get("status") or {}).get("collisionCount") or 0),
            "availableReplicas": Always(count.available),
            "conditions": (state.raw.get("status") or {}).get("conditions") or [],
        },
    )
    if count.wait is not None:
        yield RequeueAfter(count.wait)
