"""Deployments: ReplicaSets that take over from each other, a few pods at a time."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from trimtab.api.kinds.native.apps import Deployment, ReplicaSet
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Key, Raw
from trimtab.clock import timestamp
from trimtab.controllers.contract import Again, Gone, Make, Note, View, Wake, Wish
from trimtab.simulate.workloads.owned_pods import (
    PODS_OF,
    Always,
    children,
    oldest_first,
    owner_reference,
    raw_of,
    ref,
    safe_hash,
    share,
    when_child_changes,
    with_status,
)
from trimtab.simulate.workloads.registry import workload

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
NOT_COPIED = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        HISTORY,
        DESIRED,
        MOST,
        "deprecated.deployment.rollback.to",
    )
)
REPLICASETS = children(ReplicaSet)
NO_DEADLINE = 2**31 - 1


class Roll(NamedTuple):
    """A Deployment with its ReplicaSets, as it stands."""

    wanted: Deployment
    raw: Raw
    new: ReplicaSet | None
    old: tuple[ReplicaSet, ...]
    """Oldest first."""

    @property
    def all(self) -> tuple[ReplicaSet, ...]:
        return self.old if self.new is None else (*self.old, self.new)

    @property
    def replicas(self) -> int:
        return 1 if self.wanted.spec.replicas is None else self.wanted.spec.replicas

    @property
    def rolling(self) -> bool:
        return self.wanted.spec.strategy.type != "Recreate"

    @property
    def surge(self) -> int:
        """How many pods beyond the wanted number there may be."""
        return self._fenceposts()[0] if self.rolling else 0

    @property
    def slack(self) -> int:
        """How many of the wanted pods may be unavailable."""
        return min(self._fenceposts()[1], self.replicas) if self.rolling and self.replicas else 0

    def _fenceposts(self) -> tuple[int, int]:
        how = self.wanted.spec.strategy.rolling_update
        surge = share(how.max_surge if how else None, self.replicas, up=True, default="25%")
        slack = share(how.max_unavailable if how else None, self.replicas, up=False, default="25%")
        return (0, 1) if surge == 0 and slack == 0 else (surge, slack)


def _when_old_pods_end(old: Pod | None, new: Pod | None, view: View) -> Iterator[Key]:
    """A Recreate waits until the last old pod is gone."""
    if old is None or new is not None:
        return
    owner = old.controller
    parent = view.get(ReplicaSet, old.metadata.namespace, owner.name) if owner and owner.kind == "ReplicaSet" else None
    for above in parent.metadata.owner_references if parent else ():
        if above.controller and above.kind == "Deployment":
            yield Key("deployments.apps", old.metadata.namespace, above.name)


@workload(
    Deployment,
    writes=["ReplicaSet", "status", "metadata.annotations"],
    wakes=[when_child_changes(Deployment, ReplicaSet), Wake(Pod, _when_old_pods_end)],
)
def deployment(wanted: Deployment, view: View) -> Iterator[Wish]:
    if wanted.metadata.deletion_timestamp is not None:
        return
    roll = _survey(wanted, view)
    if wanted.spec.paused or _was_scaled(roll):
        yield from _rescaled(roll)
        yield from _report(roll, view, progress=False)
        return
    if roll.new is None:
        if not roll.rolling and _still_running(roll, view):
            yield from _shrunk_to_nothing(roll)
            yield from _report(roll, view)
            return
        born = _newborn(roll)
        yield Make(born)
        yield _told(roll, born["metadata"]["name"], 0, born["spec"]["replicas"])
        yield from _report(roll, view, born=born)
        return
    yield from _revision_kept(roll, view)
    yield from _rolled(roll, view)
    yield from _report(roll, view)


def _survey(wanted: Deployment, view: View) -> Roll:
    raw = raw_of(wanted, view)
    kin = oldest_first(view.having(REPLICASETS, wanted.metadata.uid))
    template = _without_hash(raw["spec"]["template"])
    new = next((one for one in kin if _without_hash(raw_of(one, view)["spec"]["template"]) == template), None)
    return Roll(wanted, raw, new, tuple(one for one in kin if one is not new))


def _without_hash(template: Raw) -> Raw:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    kept = {key: value for key, value in metadata.items() if key not in ("labels", "creationTimestamp")}
    return {**template, "metadata": {**kept, "labels": labels}}


def _size(one: ReplicaSet) -> int:
    return 1 if one.spec.replicas is None else one.spec.replicas


def _sizes(many: Sequence[ReplicaSet]) -> int:
    return sum(map(_size, many))


def _number(text: str | None) -> int:
    return int(text) if text and text.lstrip("-").isdigit() else 0


def _revision(one: ReplicaSet) -> int:
    return _number(one.metadata.annotations.get(REVISION))


# children


def _newborn(roll: Roll) -> Raw:
    """The ReplicaSet of today's template."""
    meta, spec = roll.raw["metadata"], roll.raw["spec"]
    collisions = (roll.raw.get("status") or {}).get("collisionCount") or 0
    mark = safe_hash([_without_hash(spec["template"]), collisions])
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: mark}
    selector = {**spec["selector"], "matchLabels": {**(spec["selector"].get("matchLabels") or {}), HASH: mark}}
    body = {
        "replicas": _room_for_new(roll, 0),
        "selector": selector,
        "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        "minReadySeconds": roll.wanted.spec.min_ready_seconds,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name']}-{mark}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {
                **{k: v for k, v in (meta.get("annotations") or {}).items() if k not in NOT_COPIED},
                REVISION: str(max(map(_revision, roll.old), default=0) + 1),
                **_scale_notes(roll),
            },
            "ownerReferences": [owner_reference(roll.wanted)],
        },
        "spec": {key: value for key, value in body.items() if value or key == "replicas"},
    }


def _scale_notes(roll: Roll) -> dict[str, str]:
    return {DESIRED: str(roll.replicas), MOST: str(roll.replicas + roll.surge)}


def _told(roll: Roll, name: str, before: int, after: int) -> Note:
    way = "up" if after >= before else "down"
    said = f"Scaled {way} replica set {name} from {before} to {after}"
    return Note(ref(roll.wanted), "ScalingReplicaSet", said, "deployment-controller")


def _resized(roll: Roll, one: ReplicaSet, size: int) -> Iterator[Wish]:
    """This ReplicaSet, with another size."""
    annotations = {**one.metadata.annotations, **_scale_notes(roll)}
    if size == _size(one) and annotations == one.metadata.annotations:
        return
    yield one.but(metadata=one.metadata.but(annotations=annotations), spec=one.spec.but(replicas=size))
    if size != _size(one):
        yield _told(roll, one.name, _size(one), size)


def _revision_kept(roll: Roll, view: View) -> Iterator[Wish]:
    """A template that came back gets the newest revision again."""
    if roll.new is None:
        return
    newest = str(max(max(map(_revision, roll.old), default=0) + 1, _revision(roll.new)))
    annotations = roll.new.metadata.annotations
    if annotations.get(REVISION) != newest:
        history = [part for part in (annotations.get(HISTORY), annotations.get(REVISION)) if part]
        changed = {**annotations, REVISION: newest} | ({HISTORY: ",".join(history)} if history else {})
        yield roll.new.but(metadata=roll.new.metadata.but(annotations=changed))


# rolling


def _rolled(roll: Roll, view: View) -> Iterator[Wish]:
    """One step towards the new ReplicaSet; the next beat takes the next."""
    new = roll.new
    if new is None:
        return
    if not roll.rolling and _still_running(roll, view):
        yield from _shrunk_to_nothing(roll)
        return
    size = roll.replicas if _size(new) > roll.replicas else _room_for_new(roll, _size(new))
    if size != _size(new):
        yield from _resized(roll, new, size)
        return
    step = list(_shrunk_old(roll, new)) if roll.rolling else []
    yield from step
    if not step and _complete(roll):
        yield from _cleaned(roll)


def _room_for_new(roll: Roll, present: int) -> int:
    if not roll.rolling:
        return roll.replicas
    room = roll.replicas + roll.surge - _sizes(roll.all)
    return present + min(room, roll.replicas - present) if room > 0 else present


def _shrunk_old(roll: Roll, new: ReplicaSet) -> Iterator[Wish]:
    """Old pods leave as far as enough are available: those that are not well first."""
    enough = roll.replicas - roll.slack
    spare = _sizes(roll.all) - enough - (_size(new) - new.status.available_replicas)
    if spare <= 0 or not _sizes(roll.old):
        return
    sizes = {one.name: _size(one) for one in roll.old}
    for one in roll.old:
        unwell = max(0, _size(one) - one.status.available_replicas)
        taken = min(spare, unwell)
        sizes[one.name] -= taken
        spare -= taken
    left = sum(one.status.available_replicas for one in roll.all) - enough
    for one in roll.old:
        taken = max(0, min(left, sizes[one.name]))
        sizes[one.name] -= taken
        left -= taken
    for one in roll.old:
        if sizes[one.name] != _size(one):
            yield from _resized(roll, one, sizes[one.name])


def _still_running(roll: Roll, view: View) -> bool:
    return any(not pod.terminal for one in roll.old for pod in view.having(PODS_OF, one.metadata.uid)) or bool(
        _sizes(roll.old)
    )


def _shrunk_to_nothing(roll: Roll) -> Iterator[Wish]:
    for one in roll.old:
        if _size(one):
            yield from _resized(roll, one, 0)


def _complete(roll: Roll) -> bool:
    new = roll.new
    return (
        new is not None
        and new.status.replicas == new.status.available_replicas == roll.replicas
        and all(one.status.replicas == 0 for one in roll.old)
    )


def _cleaned(roll: Roll) -> Iterator[Wish]:
    """Old ReplicaSets beyond the history that is kept go."""
    limit = roll.wanted.spec.revision_history_limit
    kept = 10 if limit is None else limit
    idle = [one for one in roll.old if _size(one) == 0 and one.status.replicas == 0 and not _ending(one)]
    for one in sorted(idle, key=_revision)[: max(0, len(idle) - kept)]:
        yield Gone(one)


def _ending(one: ReplicaSet) -> bool:
    return one.metadata.deletion_timestamp is not None


# scaling


def _was_scaled(roll: Roll) -> bool:
    """The wanted number changed while ReplicaSets run: they are scaled before anything else."""
    active = [one.metadata.annotations for one in roll.all if _size(one) > 0]
    if not roll.rolling and len(active) > 1:
        return False
    return any(DESIRED in notes and _number(notes[DESIRED]) != roll.replicas for notes in active)


def _rescaled(roll: Roll) -> Iterator[Wish]:
    active = [one for one in roll.all if _size(one) > 0]
    if len(active) <= 1:
        only = active[0] if active else (roll.new or max(roll.all, key=_revision, default=None))
        if only is not None:
            yield from _resized(roll, only, roll.replicas)
        return
    if roll.new is not None and _saturated(roll, roll.new):
        for one in roll.old:
            if _size(one):
                yield from _resized(roll, one, 0)
        return
    if roll.rolling:
        for one, size in _proportions(roll, active):
            yield from _resized(roll, one, size)


def _saturated(roll: Roll, new: ReplicaSet) -> bool:
    return (
        _size(new) == roll.replicas == new.status.available_replicas
        and _number(new.metadata.annotations.get(DESIRED)) == roll.replicas
    )


def _proportions(roll: Roll, active: Sequence[ReplicaSet]) -> list[tuple[ReplicaSet, int]]:
    """Every ReplicaSet of a roll-out in progress grows or shrinks by its share; the largest takes what is left over."""
    allowed = roll.replicas + roll.surge if roll.replicas else 0
    more = allowed - _sizes(active)
    newest_first = list(reversed(oldest_first(active)))
    order = sorted(newest_first if more > 0 else oldest_first(active), key=_size, reverse=True)
    sizes, added = [], 0
    for one in order:
        part = _share_of(roll, one)
        part = min(part, more - added) if more > 0 else max(part, more - added)
        added += part
        sizes.append(_size(one) + part)
    sizes[0] = max(0, sizes[0] + more - added)
    return list(zip(order, sizes, strict=True))


def _share_of(roll: Roll, one: ReplicaSet) -> int:
    if not roll.replicas:
        return -_size(one)
    before = _number(one.metadata.annotations.get(MOST)) or roll.wanted.status.replicas or roll.replicas
    return int(_size(one) * (roll.replicas + roll.surge) / before + 0.5) - _size(one)


# telling


def _report(roll: Roll, view: View, *, progress: bool = True, born: Raw | None = None) -> Iterator[Wish]:
    """The status, its conditions and the revision, all through the status path: that moves no generation."""
    numbers = _numbers(roll, born)
    conditions = list((roll.raw.get("status") or {}).get("conditions") or [])
    conditions = _placed(conditions, _availability(roll, numbers, view.now))
    if roll.wanted.spec.progress_deadline_seconds not in (None, NO_DEADLINE):
        conditions = _with_pause(conditions, roll, view.now)
        if progress:
            conditions = _with_progress(conditions, roll, numbers, view, born)
        if wait := _until_deadline(conditions, roll, view.now):
            yield Again(wait)
    conditions = _with_failure(conditions, roll, view.now)
    status = {**(roll.raw.get("status") or {}), **numbers, "conditions": conditions}
    status["observedGeneration"] = roll.wanted.metadata.generation
    newest = born["metadata"]["annotations"][REVISION] if born else None
    if newest is None and roll.new is not None:
        newest = str(max(max(map(_revision, roll.old), default=0) + 1, _revision(roll.new)))
    annotations = dict(roll.raw["metadata"].get("annotations") or {})
    yield from with_status(roll.raw, status, annotations | ({REVISION: newest} if newest else {}))


def _numbers(roll: Roll, born: Raw | None) -> dict[str, Any]:
    total = sum(one.status.replicas for one in roll.all)
    available = sum(one.status.available_replicas for one in roll.all)
    asked = _sizes(roll.all) + (born["spec"]["replicas"] if born else 0)
    return {
        "replicas": total,
        "updatedReplicas": roll.new.status.replicas if roll.new else 0,
        "readyReplicas": sum(one.status.ready_replicas for one in roll.all),
        "availableReplicas": available,
        "unavailableReplicas": max(0, asked - available),
        "terminatingReplicas": Always(sum(one.status.terminating_replicas or 0 for one in roll.all)),
    }


def _condition(type_: str, status: str, reason: str, message: str, now: datetime) -> Raw:
    return {
        "type": type_,
        "status": status,
        "lastUpdateTime": timestamp(now),
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }


def _found(conditions: Sequence[Raw], type_: str) -> Raw | None:
    return next((one for one in conditions if one["type"] == type_), None)


def _placed(conditions: list[Raw], new: Raw) -> list[Raw]:
    """With this condition, which goes to the end unless nothing about it is new."""
    present = _found(conditions, new["type"])
    if present is not None:
        if present["status"] == new["status"] and present["reason"] == new["reason"]:
            return conditions
        if present["status"] == new["status"]:
            new = {**new, "lastTransitionTime": present["lastTransitionTime"]}
    return [*(one for one in conditions if one["type"] != new["type"]), new]


def _availability(roll: Roll, numbers: Mapping[str, Any], now: datetime) -> Raw:
    if numbers["availableReplicas"] >= roll.replicas - roll.slack:
        return _condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now)
    return _condition(
        "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now
    )


def _with_progress(
    conditions: list[Raw], roll: Roll, numbers: Mapping[str, Any], view: View, born: Raw | None
) -> list[Raw]:
    if born is not None:
        said = f'Created new replica set "{born["metadata"]["name"]}"'
        return _placed(conditions, _condition("Progressing", "True", "NewReplicaSetCreated", said, view.now))
    present = _found(conditions, "Progressing")
    settled = numbers["replicas"] == numbers["updatedReplicas"]
    if settled and present is not None and present["reason"] == "NewReplicaSetAvailable":
        return conditions
    if present is None and roll.new is not None:
        said = f'Found new replica set "{roll.new.name}"'
        conditions = _placed(conditions, _condition("Progressing", "True", "FoundNewReplicaSet", said, view.now))
        present = _found(conditions, "Progressing")
    subject = f'ReplicaSet "{roll.new.name}"' if roll.new else f'Deployment "{roll.wanted.name}"'
    if numbers["updatedReplicas"] == numbers["replicas"] == numbers["availableReplicas"] == roll.replicas:
        done = f"{subject} has successfully progressed."
        return _placed(conditions, _condition("Progressing", "True", "NewReplicaSetAvailable", done, view.now))
    if _moved_on(roll, numbers):
        going = _condition("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.", view.now)
        if present is not None and present["status"] == "True":
            going["lastTransitionTime"] = present["lastTransitionTime"]
        return [*(one for one in conditions if one["type"] != "Progressing"), going]
    if present is not None and _overdue(present, roll, view.now):
        late = f"{subject} has timed out progressing."
        return _placed(conditions, _condition("Progressing", "False", "ProgressDeadlineExceeded", late, view.now))
    return conditions


def _moved_on(roll: Roll, numbers: Mapping[str, Any]) -> bool:
    before = roll.wanted.status
    return bool(
        numbers["updatedReplicas"] > before.updated_replicas
        or numbers["replicas"] - numbers["updatedReplicas"] < before.replicas - before.updated_replicas
        or numbers["readyReplicas"] > before.ready_replicas
        or numbers["availableReplicas"] > before.available_replicas
    )


def _deadline(present: Raw, roll: Roll) -> datetime:
    seconds = roll.wanted.spec.progress_deadline_seconds or 0
    return datetime.fromisoformat(present["lastUpdateTime"]) + timedelta(seconds=seconds)


def _overdue(present: Raw, roll: Roll, now: datetime) -> bool:
    if present["reason"] == "NewReplicaSetAvailable":
        return False
    return present["reason"] == "ProgressDeadlineExceeded" or _deadline(present, roll) < now


def _until_deadline(conditions: Sequence[Raw], roll: Roll, now: datetime) -> float | None:
    """How long until a roll-out that stands still is called late; None when it has ended, well or not."""
    present = _found(conditions, "Progressing")
    ended = ("NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused")
    if present is None or present["reason"] in ended:
        return None
    return max(0.0, (_deadline(present, roll) - now).total_seconds()) + 1.0


def _with_pause(conditions: list[Raw], roll: Roll, now: datetime) -> list[Raw]:
    """While paused no deadline runs; after it, a new one does."""
    present = _found(conditions, "Progressing")
    if present is not None and present["reason"] == "ProgressDeadlineExceeded":
        return conditions
    paused = present is not None and present["reason"] == "DeploymentPaused"
    if roll.wanted.spec.paused and not paused:
        return _placed(
            conditions, _condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now)
        )
    if paused and not roll.wanted.spec.paused:
        said = "Deployment is resumed"
        return _placed(conditions, _condition("Progressing", "Unknown", "DeploymentResumed", said, now))
    return conditions


def _with_failure(conditions: list[Raw], roll: Roll, now: datetime) -> list[Raw]:
    """Why pods cannot be made, as the ReplicaSets say."""
    others = [one for one in conditions if one["type"] != "ReplicaFailure"]
    for one in reversed(roll.all):
        for condition in one.status.conditions:
            if condition.type == "ReplicaFailure" and condition.status == "True":
                failure = _condition("ReplicaFailure", "True", condition.reason, condition.message, now)
                return _placed(conditions, failure)
    return others
