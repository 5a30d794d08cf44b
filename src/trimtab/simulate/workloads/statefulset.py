"""The StatefulSet controller: pods with stable names, created, updated and deleted in order."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.apps import ControllerRevision, StatefulSet
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.storage import PersistentVolumeClaim
from trimtab.api.value import Raw
from trimtab.controllers.contract import Delete, Effect, Ensure, RequeueAfter, View
from trimtab.simulate.workloads.adoption import ORPHAN_PODS, claim_children, orphan_trigger
from trimtab.simulate.workloads.claim_retention import claim_name, update_claim_owners
from trimtab.simulate.workloads.owned_pods import (
    PODS_BY_OWNER,
    AlwaysWritten,
    PodIdentity,
    count_pods,
    owner_trigger,
    pod_from,
    raw_of,
    scaled_value,
    seconds_until_available,
    update_status,
)
from trimtab.simulate.workloads.registry import workload
from trimtab.simulate.workloads.revisions import (
    HASH_LABEL,
    REVISIONS_BY_OWNER,
    RevisionHistory,
    delete_old_revisions,
    revision_history,
)


class StatefulSetState(NamedTuple):
    """A StatefulSet and its pods by ordinal."""

    wanted: StatefulSet
    raw: Raw
    first_ordinal: int
    pods: Mapping[int, Pod]
    history: RevisionHistory
    current_revision: str
    """The revision of pods below the partition, and of all pods once an update is complete."""

    @property
    def replicas(self) -> int:
        return 1 if self.wanted.spec.replicas is None else self.wanted.spec.replicas

    @property
    def ordinals(self) -> range:
        return range(self.first_ordinal, self.first_ordinal + self.replicas)

    @property
    def is_parallel(self) -> bool:
        return self.wanted.spec.pod_management_policy == "Parallel"

    @property
    def partition(self) -> int:
        rolling = self.wanted.spec.update_strategy.rolling_update
        return (rolling.partition or 0) if rolling else 0

    @property
    def updates_on_delete(self) -> bool:
        return self.wanted.spec.update_strategy.type == "OnDelete"


@workload(
    StatefulSet,
    writes=["Pod", "ControllerRevision", "PersistentVolumeClaim", "status"],
    triggers=[
        owner_trigger(StatefulSet, Pod),
        orphan_trigger(StatefulSet, Pod),
        owner_trigger(StatefulSet, ControllerRevision),
    ],
)
def statefulset(wanted: StatefulSet, view: View) -> Iterator[Effect]:
    claim = claim_children(
        wanted,
        view.by_index(PODS_BY_OWNER, wanted.metadata.uid),
        [pod for pod in view.by_index(ORPHAN_PODS, wanted.metadata.namespace) if _ordinal(wanted, pod) is not None],
    )
    yield from claim.effects
    state = _observe(wanted, claim.children, view)
    if wanted.metadata.deletion_timestamp is None:
        yield from state.history.effects
        yield from _create_claims(state, view)
        yield from update_claim_owners(wanted, state.raw, state.pods, state.ordinals, view)
        step = (
            list(_create_missing(state, view))
            or list(_delete_surplus(state, view))
            or list(_delete_outdated(state, view))
        )
        yield from step
    yield from _update_status(state, view)
    if wanted.metadata.deletion_timestamp is None:
        in_use = {pod.metadata.labels.get(HASH_LABEL, "") for pod in state.pods.values()} | {state.current_revision}
        yield from delete_old_revisions(state.history, in_use, wanted.spec.revision_history_limit)


def _ordinal(wanted: StatefulSet, pod: Pod) -> int | None:
    """The ordinal in the name of the pod; None if it is not the name of a pod of this StatefulSet."""
    stem, _, tail = pod.name.rpartition("-")
    return int(tail) if stem == wanted.name and tail.isdigit() else None


def _observe(wanted: StatefulSet, owned: Sequence[Pod], view: View) -> StatefulSetState:
    raw = raw_of(wanted, view)
    revisions = revision_history(wanted, view)
    pods = {ordinal: pod for pod in owned if (ordinal := _ordinal(wanted, pod)) is not None}
    first = int((raw["spec"].get("ordinals") or {}).get("start") or 0)
    return StatefulSetState(wanted, raw, first, pods, revisions, wanted.status.current_revision or revisions.name)


def _is_available(pod: Pod, state: StatefulSetState, view: View) -> bool:
    return (
        pod.metadata.deletion_timestamp is None
        and seconds_until_available(pod, state.wanted.spec.min_ready_seconds, view.now) == 0
    )


def _create_missing(state: StatefulSetState, view: View) -> Iterator[Effect]:
    """Create missing pods, lowest ordinal first; in order, each waits until all before it are available."""
    for ordinal in state.ordinals:
        pod = state.pods.get(ordinal)
        if pod is None:
            yield Ensure(_new_pod(state, ordinal, view))
        elif pod.is_terminal and pod.metadata.deletion_timestamp is None:
            yield Delete(pod)
        elif state.is_parallel or _is_available(pod, state, view):
            continue
        elif pod.metadata.deletion_timestamp is None:
            return
        if not state.is_parallel:
            return


def _delete_surplus(state: StatefulSetState, view: View) -> Iterator[Effect]:
    """Delete surplus pods, highest ordinal first; in order, one at a time and only when the others are available."""
    unavailable = [ordinal for ordinal in sorted(state.pods) if not _is_available(state.pods[ordinal], state, view)]
    blocked = [ordinal for ordinal in unavailable if ordinal in state.ordinals]
    for ordinal in sorted(set(state.pods) - set(state.ordinals), reverse=True):
        pod = state.pods[ordinal]
        # In order, a pod that is not available waits for those before it that are not available either.
        waits = bool(blocked) or (ordinal in unavailable and ordinal != unavailable[0])
        if pod.metadata.deletion_timestamp is None and (state.is_parallel or not waits):
            yield Delete(pod)
        if not state.is_parallel:
            return


def _delete_outdated(state: StatefulSetState, view: View) -> Iterator[Effect]:
    """Delete pods of older templates, highest ordinal first, within `maxUnavailable`."""
    if state.updates_on_delete or len(state.pods) != state.replicas:
        return
    if not state.is_parallel and any(not _is_available(pod, state, view) for pod in state.pods.values()):
        broken = [pod for pod in state.pods.values() if not _is_available(pod, state, view)]
        if any(
            pod.metadata.labels.get(HASH_LABEL) == state.history.name or pod.metadata.deletion_timestamp
            for pod in broken
        ):
            return
    rolling = state.wanted.spec.update_strategy.rolling_update
    max_unavailable = max(
        1, scaled_value(rolling.max_unavailable if rolling else None, state.replicas, round_up=True, default=1)
    )
    unavailable = sum(not _is_available(pod, state, view) for pod in state.pods.values())
    for ordinal in sorted(state.ordinals, reverse=True):
        pod = state.pods[ordinal]
        if ordinal - state.first_ordinal < state.partition:
            return
        if pod.metadata.labels.get(HASH_LABEL) == state.history.name:
            continue
        is_unavailable = not _is_available(pod, state, view)
        if not is_unavailable and unavailable >= max_unavailable:
            return
        if pod.metadata.deletion_timestamp is None:
            yield Delete(pod)
            unavailable += not is_unavailable


def _template_for(state: StatefulSetState, ordinal: int, view: View) -> tuple[Raw, str]:
    """The template and revision of a pod; below the partition, and before the update reached it, the old ones."""
    updating = state.current_revision != state.history.name
    if not updating or state.updates_on_delete or ordinal - state.first_ordinal >= state.partition:
        return state.raw["spec"]["template"], state.history.name
    for revision in view.by_index(REVISIONS_BY_OWNER, state.wanted.metadata.uid):
        if revision.name == state.current_revision:
            kept = dict(raw_of(revision, view)["data"]["spec"]["template"])
            kept.pop("$patch", None)
            return kept, state.current_revision
    return state.raw["spec"]["template"], state.history.name


def _new_pod(state: StatefulSetState, ordinal: int, view: View) -> Raw:
    name = f"{state.wanted.name}-{ordinal}"
    template, revision = _template_for(state, ordinal, view)
    labels = {
        HASH_LABEL: revision,
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
    }
    pod = pod_from(
        template,
        state.wanted,
        PodIdentity(name, labels, hostname=name, subdomain=state.wanted.spec.service_name),
    )
    volumes = [
        {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name(claim, name)}}
        for claim in state.raw["spec"].get("volumeClaimTemplates") or ()
    ]
    taken = {volume["name"] for volume in volumes}
    others = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in taken]
    return {**pod, "spec": {**pod["spec"], "volumes": others + volumes}} if volumes else pod


def _create_claims(state: StatefulSetState, view: View) -> Iterator[Effect]:
    for claim in state.raw["spec"].get("volumeClaimTemplates") or ():
        for ordinal in state.ordinals:
            name = claim_name(claim, f"{state.wanted.name}-{ordinal}")
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


def _update_status(state: StatefulSetState, view: View) -> Iterator[Effect]:
    pods = [pod for pod in state.pods.values() if not pod.is_terminal]
    here = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    count = count_pods(pods, state.wanted.spec.min_ready_seconds, view.now)
    current = sum(pod.metadata.labels.get(HASH_LABEL) == state.current_revision for pod in here)
    updated = sum(pod.metadata.labels.get(HASH_LABEL) == state.history.name for pod in here)
    revision = state.current_revision
    complete = not state.updates_on_delete and updated == len(pods) == count.ready == state.replicas
    if complete:
        current, revision = updated, state.history.name
    yield from update_status(
        state.raw,
        {
            "observedGeneration": state.wanted.metadata.generation,
            "replicas": AlwaysWritten(len(pods)),
            "readyReplicas": count.ready,
            "currentReplicas": current,
            "updatedReplicas": updated,
            "currentRevision": revision,
            "updateRevision": state.history.name,
            "collisionCount": AlwaysWritten((state.raw.get("status") or {}).get("collisionCount") or 0),
            "availableReplicas": AlwaysWritten(count.available),
            "conditions": (state.raw.get("status") or {}).get("conditions") or [],
        },
    )
    if count.seconds_until_next is not None:
        yield RequeueAfter(count.seconds_until_next)
