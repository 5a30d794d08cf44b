"""StatefulSets: pods with names that stay, made, updated and removed in order."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trimtab.api.kinds.native.apps import ControllerRevision, StatefulSet
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.storage import PersistentVolumeClaim
from trimtab.api.value import Raw
from trimtab.controllers.contract import Again, Gone, Make, View, Wish
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
    """A StatefulSet with its pods by ordinal, as it stands."""

    wanted: StatefulSet
    raw: Raw
    first: int
    pods: Mapping[int, Pod]
    past: History
    current: str
    """The revision that pods below the partition keep, and that everybody has once an update is through."""

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
def statefulset(wanted: StatefulSet, view: View) -> Iterator[Wish]:
    row = _survey(wanted, view)
    if wanted.metadata.deletion_timestamp is None:
        yield from row.past.wishes
        yield from _claims(row, view)
        step = list(_made(row, view)) or list(_removed(row, view)) or list(_updated(row, view))
        yield from step
    yield from _report(row, view)
    if wanted.metadata.deletion_timestamp is None:
        in_use = {pod.metadata.labels.get(HASH, "") for pod in row.pods.values()} | {row.current}
        yield from forgotten(row.past, in_use, wanted.spec.revision_history_limit)


def _survey(wanted: StatefulSet, view: View) -> Row:
    raw = raw_of(wanted, view)
    past = history(wanted, view)
    stem = f"{wanted.name}-"
    pods = {}
    for pod in view.having(PODS_OF, wanted.metadata.uid):
        tail = pod.name.removeprefix(stem)
        if pod.name.startswith(stem) and tail.isdigit():
            pods[int(tail)] = pod
    first = int((raw["spec"].get("ordinals") or {}).get("start") or 0)
    return Row(wanted, raw, first, pods, past, wanted.status.current_revision or past.name)


def _well(pod: Pod, row: Row, view: View) -> bool:
    return (
        pod.metadata.deletion_timestamp is None
        and seconds_to_available(pod, row.wanted.spec.min_ready_seconds, view.now) == 0
    )


def _made(row: Row, view: View) -> Iterator[Wish]:
    """Missing pods, lowest ordinal first; in order, the next one waits until all before it are well."""
    for ordinal in row.ordinals:
        pod = row.pods.get(ordinal)
        if pod is None:
            yield Make(_pod(row, ordinal, view))
        elif pod.terminal and pod.metadata.deletion_timestamp is None:
            yield Gone(pod)
        elif row.parallel or _well(pod, row, view):
            continue
        elif pod.metadata.deletion_timestamp is None:
            return
        if not row.parallel:
            return


def _removed(row: Row, view: View) -> Iterator[Wish]:
    """Pods beyond the wanted number, highest ordinal first; in order, one at a time and only when the rest is well."""
    staying = [pod for ordinal, pod in row.pods.items() if ordinal in row.ordinals]
    for ordinal in sorted(set(row.pods) - set(row.ordinals), reverse=True):
        pod = row.pods[ordinal]
        if pod.metadata.deletion_timestamp is None and (row.parallel or all(_well(one, row, view) for one in staying)):
            yield Gone(pod)
        if not row.parallel:
            return


def _updated(row: Row, view: View) -> Iterator[Wish]:
    """Pods of an older template, highest ordinal first, as many at a time as may be unavailable."""
    if row.on_delete or len(row.pods) != row.replicas:
        return
    if not row.parallel and any(not _well(pod, row, view) for pod in row.pods.values()):
        broken = [pod for pod in row.pods.values() if not _well(pod, row, view)]
        if any(pod.metadata.labels.get(HASH) == row.past.name or pod.metadata.deletion_timestamp for pod in broken):
            return
    rolling = row.wanted.spec.update_strategy.rolling_update
    most = max(1, share(rolling.max_unavailable if rolling else None, row.replicas, up=True, default=1))
    away = sum(not _well(pod, row, view) for pod in row.pods.values())
    for ordinal in sorted(row.ordinals, reverse=True):
        pod = row.pods[ordinal]
        if ordinal - row.first < row.partition:
            return
        if pod.metadata.labels.get(HASH) == row.past.name:
            continue
        unwell = not _well(pod, row, view)
        if not unwell and away >= most:
            return
        if pod.metadata.deletion_timestamp is None:
            yield Gone(pod)
            away += not unwell


def _template_for(row: Row, ordinal: int, view: View) -> tuple[Raw, str]:
    """Below the partition, and while nothing was updated yet, pods come back as they were."""
    updating = row.current != row.past.name
    if not updating or (not row.on_delete and ordinal - row.first >= row.partition):
        return row.raw["spec"]["template"], row.past.name
    for revision in view.having(REVISIONS, row.wanted.metadata.uid):
        if revision.name == row.current:
            kept = dict(raw_of(revision, view)["data"]["spec"]["template"])
            kept.pop("$patch", None)
            return kept, row.current
    return row.raw["spec"]["template"], row.past.name


def _pod(row: Row, ordinal: int, view: View) -> Raw:
    name = f"{row.wanted.name}-{ordinal}"
    template, revision = _template_for(row, ordinal, view)
    labels = {HASH: revision, "statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
    pod = pod_from(
        template,
        row.wanted,
        Kid(name, labels, hostname=name, subdomain=row.wanted.spec.service_name),
    )
    volumes = [
        {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": _claim_name(claim, name)}}
        for claim in row.raw["spec"].get("volumeClaimTemplates") or ()
    ]
    taken = {volume["name"] for volume in volumes}
    others = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in taken]
    return {**pod, "spec": {**pod["spec"], "volumes": others + volumes}} if volumes else pod


def _claim_name(claim: Raw, pod: str) -> str:
    return f"{claim['metadata']['name']}-{pod}"


def _claims(row: Row, view: View) -> Iterator[Wish]:
    for claim in row.raw["spec"].get("volumeClaimTemplates") or ():
        for ordinal in row.ordinals:
            name = _claim_name(claim, f"{row.wanted.name}-{ordinal}")
            if view.get(PersistentVolumeClaim, row.wanted.namespace, name) is None:
                labels = (row.raw["spec"]["selector"] or {}).get("matchLabels") or {}
                yield Make(
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "metadata": {"name": name, "namespace": row.wanted.namespace, "labels": labels},
                        "spec": claim["spec"],
                    }
                )


def _report(row: Row, view: View) -> Iterator[Wish]:
    pods = [pod for pod in row.pods.values() if not pod.terminal]
    here = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    count = tally(pods, row.wanted.spec.min_ready_seconds, view.now)
    current = sum(pod.metadata.labels.get(HASH) == row.current for pod in here)
    updated = sum(pod.metadata.labels.get(HASH) == row.past.name for pod in here)
    revision = row.current
    through = not row.on_delete and updated == len(pods) == count.ready == row.replicas
    if through:
        current, revision = updated, row.past.name
    yield from with_status(
        row.raw,
        {
            "observedGeneration": row.wanted.metadata.generation,
            "replicas": Always(len(pods)),
            "readyReplicas": count.ready,
            "currentReplicas": current,
            "updatedReplicas": updated,
            "currentRevision": revision,
            "updateRevision": row.past.name,
            "collisionCount": Always((row.raw.get("status") or {}).get("collisionCount") or 0),
            "availableReplicas": Always(count.available),
            "conditions": (row.raw.get("status") or {}).get("conditions") or [],
        },
    )
    if count.wait is not None:
        yield Again(count.wait)
