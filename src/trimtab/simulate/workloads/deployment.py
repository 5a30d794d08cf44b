"""The Deployment controller: rolls out templates through ReplicaSets."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from trimtab.api.kinds.native.apps import Deployment, ReplicaSet
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Key, Raw
from trimtab.clock import timestamp
from trimtab.controllers.contract import Delete, Effect, Ensure, RecordEvent, RequeueAfter, Trigger, View
from trimtab.simulate.workloads.adoption import claim_children, orphan_trigger, orphans_by_namespace
from trimtab.simulate.workloads.owned_pods import (
    PODS_BY_OWNER,
    AlwaysWritten,
    children_by_owner,
    owner_reference,
    owner_trigger,
    raw_of,
    ref_to,
    safe_hash,
    scaled_value,
    sort_oldest_first,
    update_status,
)
from trimtab.simulate.workloads.registry import workload

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
NOT_COPIED = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        HISTORY,
        DESIRED,
        MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
    )
)
REPLICASETS_BY_OWNER = children_by_owner(ReplicaSet)
ORPHAN_REPLICASETS = orphans_by_namespace(ReplicaSet)
NO_DEADLINE = 2**31 - 1


class DeploymentState(NamedTuple):
    """A Deployment and its ReplicaSets."""

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
    def is_rolling_update(self) -> bool:
        return self.wanted.spec.strategy.type != "Recreate"

    @property
    def max_surge(self) -> int:
        """Number of pods allowed beyond the wanted replicas."""
        return self._fenceposts()[0] if self.is_rolling_update else 0

    @property
    def max_unavailable(self) -> int:
        """Number of the wanted replicas that may be unavailable."""
        return min(self._fenceposts()[1], self.replicas) if self.is_rolling_update and self.replicas else 0

    def _fenceposts(self) -> tuple[int, int]:
        how = self.wanted.spec.strategy.rolling_update
        surge = scaled_value(how.max_surge if how else None, self.replicas, round_up=True, default="25%")
        slack = scaled_value(how.max_unavailable if how else None, self.replicas, round_up=False, default="25%")
        return (0, 1) if surge == 0 and slack == 0 else (surge, slack)


def _deployment_of_deleted_pod(old: Pod | None, new: Pod | None, view: View) -> Iterator[Key]:
    """Trigger the Deployment when a pod is deleted: Recreate waits for the last old pod."""
    if old is None or new is not None:
        return
    owner = old.controller
    parent = view.get(ReplicaSet, old.metadata.namespace, owner.name) if owner and owner.kind == "ReplicaSet" else None
    for owner_ref in parent.metadata.owner_references if parent else ():
        if owner_ref.controller and owner_ref.kind == "Deployment":
            yield Key("deployments.apps", old.metadata.namespace, owner_ref.name)


@workload(
    Deployment,
    writes=["ReplicaSet", "status", "metadata.annotations"],
    triggers=[
        owner_trigger(Deployment, ReplicaSet),
        orphan_trigger(Deployment, ReplicaSet),
        Trigger(Pod, _deployment_of_deleted_pod),
    ],
)
def deployment(wanted: Deployment, view: View) -> Iterator[Effect]:
    if wanted.metadata.deletion_timestamp is not None:
        return
    claim = claim_children(
        wanted,
        view.by_index(REPLICASETS_BY_OWNER, wanted.metadata.uid),
        view.by_index(ORPHAN_REPLICASETS, wanted.metadata.namespace),
    )
    if claim.effects:
        yield from claim.effects  # the change of ownership triggers the next reconcile
        return
    state = _observe(wanted, claim.children, view)
    if wanted.spec.paused or _is_scaling_event(state):
        yield from _scale(state)
        yield from _update_status(state, view, progress=False)
        return
    if state.new is None:
        if not state.is_rolling_update and _has_running_old_pods(state, view):
            yield from _scale_old_to_zero(state)
            yield from _update_status(state, view)
            return
        created = _new_replicaset(state)
        yield Ensure(created)
        yield _scaling_event(state, created["metadata"]["name"], 0, created["spec"]["replicas"])
        yield from _update_status(state, view, created=created)
        return
    yield from _sync_revision(state, view)
    yield from _roll_out(state, view)
    yield from _update_status(state, view)


def _observe(wanted: Deployment, owned: Sequence[ReplicaSet], view: View) -> DeploymentState:
    raw = raw_of(wanted, view)
    replicasets = sort_oldest_first(owned)
    template = _without_hash(raw["spec"]["template"])
    new = next((one for one in replicasets if _without_hash(raw_of(one, view)["spec"]["template"]) == template), None)
    return DeploymentState(wanted, raw, new, tuple(one for one in replicasets if one is not new))


def _without_hash(template: Raw) -> Raw:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    kept = {key: value for key, value in metadata.items() if key not in ("labels", "creationTimestamp")}
    return {**template, "metadata": {**kept, "labels": labels}}


def _size(one: ReplicaSet) -> int:
    return 1 if one.spec.replicas is None else one.spec.replicas


def _total_size(replicasets: Sequence[ReplicaSet]) -> int:
    return sum(map(_size, replicasets))


def _parse_int(text: str | None) -> int:
    return int(text) if text and text.lstrip("-").isdigit() else 0


def _revision(one: ReplicaSet) -> int:
    return _parse_int(one.metadata.annotations.get(REVISION))


# ReplicaSets


def _new_replicaset(state: DeploymentState) -> Raw:
    """The ReplicaSet of the current template."""
    meta, spec = state.raw["metadata"], state.raw["spec"]
    collisions = (state.raw.get("status") or {}).get("collisionCount") or 0
    template_hash = safe_hash([_without_hash(spec["template"]), collisions])
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: template_hash}
    selector = {
        **spec["selector"],
        "matchLabels": {**(spec["selector"].get("matchLabels") or {}), HASH_LABEL: template_hash},
    }
    body = {
        "replicas": _new_replicaset_size(state, 0),
        "selector": selector,
        "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        "minReadySeconds": state.wanted.spec.min_ready_seconds,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name']}-{template_hash}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {
                **{k: v for k, v in (meta.get("annotations") or {}).items() if k not in NOT_COPIED},
                REVISION: str(max(map(_revision, state.old), default=0) + 1),
                **_scale_annotations(state),
            },
            "ownerReferences": [owner_reference(state.wanted)],
        },
        "spec": {key: value for key, value in body.items() if value or key == "replicas"},
    }


def _scale_annotations(state: DeploymentState) -> dict[str, str]:
    return {DESIRED: str(state.replicas), MAX_REPLICAS: str(state.replicas + state.max_surge)}


def _scaling_event(state: DeploymentState, name: str, before: int, after: int) -> RecordEvent:
    way = "up" if after >= before else "down"
    message = f"Scaled {way} replica set {name} from {before} to {after}"
    return RecordEvent(ref_to(state.wanted), "ScalingReplicaSet", message, "deployment-controller")


def _resize(state: DeploymentState, one: ReplicaSet, size: int) -> Iterator[Effect]:
    """Scale this ReplicaSet."""
    annotations = {**one.metadata.annotations, **_scale_annotations(state)}
    if size == _size(one) and annotations == one.metadata.annotations:
        return
    yield one.but(metadata=one.metadata.but(annotations=annotations), spec=one.spec.but(replicas=size))
    if size != _size(one):
        yield _scaling_event(state, one.name, _size(one), size)


def _sync_revision(state: DeploymentState, view: View) -> Iterator[Effect]:
    """Give the newest revision to a template that was rolled back to."""
    if state.new is None:
        return
    newest = str(max(max(map(_revision, state.old), default=0) + 1, _revision(state.new)))
    annotations = state.new.metadata.annotations
    if annotations.get(REVISION) != newest:
        history = [part for part in (annotations.get(HISTORY), annotations.get(REVISION)) if part]
        changed = {**annotations, REVISION: newest} | ({HISTORY: ",".join(history)} if history else {})
        yield state.new.but(metadata=state.new.metadata.but(annotations=changed))


# rollout


def _roll_out(state: DeploymentState, view: View) -> Iterator[Effect]:
    """One step of the rollout; the next reconcile takes the next one."""
    new = state.new
    if new is None:
        return
    if not state.is_rolling_update and _has_running_old_pods(state, view):
        yield from _scale_old_to_zero(state)
        return
    size = state.replicas if _size(new) > state.replicas else _new_replicaset_size(state, _size(new))
    if size != _size(new):
        yield from _resize(state, new, size)
        return
    step = list(_scale_down_old(state, new)) if state.is_rolling_update else []
    yield from step
    if not step and _is_complete(state):
        yield from _delete_old_replicasets(state)


def _new_replicaset_size(state: DeploymentState, present: int) -> int:
    if not state.is_rolling_update:
        return state.replicas
    room = state.replicas + state.max_surge - _total_size(state.all)
    return present + min(room, state.replicas - present) if room > 0 else present


def _scale_down_old(state: DeploymentState, new: ReplicaSet) -> Iterator[Effect]:
    """Scale old ReplicaSets down while enough pods are available; unavailable pods first."""
    enough = state.replicas - state.max_unavailable
    spare = _total_size(state.all) - enough - (_size(new) - new.status.available_replicas)
    if spare <= 0 or not _total_size(state.old):
        return
    sizes = {one.name: _size(one) for one in state.old}
    for one in state.old:
        unavailable = max(0, _size(one) - one.status.available_replicas)
        taken = min(spare, unavailable)
        sizes[one.name] -= taken
        spare -= taken
    available = sum(one.status.available_replicas for one in state.all) - enough
    for one in state.old:
        taken = max(0, min(available, sizes[one.name]))
        sizes[one.name] -= taken
        available -= taken
    for one in state.old:
        if sizes[one.name] != _size(one):
            yield from _resize(state, one, sizes[one.name])


def _has_running_old_pods(state: DeploymentState, view: View) -> bool:
    return any(
        not pod.is_terminal for one in state.old for pod in view.by_index(PODS_BY_OWNER, one.metadata.uid)
    ) or bool(_total_size(state.old))


def _scale_old_to_zero(state: DeploymentState) -> Iterator[Effect]:
    for one in state.old:
        if _size(one):
            yield from _resize(state, one, 0)


def _is_complete(state: DeploymentState) -> bool:
    new = state.new
    return (
        new is not None
        and new.status.replicas == new.status.available_replicas == state.replicas
        and all(one.status.replicas == 0 for one in state.old)
    )


def _delete_old_replicasets(state: DeploymentState) -> Iterator[Effect]:
    """Delete old ReplicaSets beyond the history limit."""
    limit = state.wanted.spec.revision_history_limit
    kept = 10 if limit is None else limit
    idle = [one for one in state.old if _size(one) == 0 and one.status.replicas == 0 and not _is_deleting(one)]
    for one in sorted(idle, key=_revision)[: max(0, len(idle) - kept)]:
        yield Delete(one)


def _is_deleting(one: ReplicaSet) -> bool:
    return one.metadata.deletion_timestamp is not None


# scaling


def _is_scaling_event(state: DeploymentState) -> bool:
    """Whether the wanted replicas changed while ReplicaSets run: scaling comes before everything else."""
    active = [one.metadata.annotations for one in state.all if _size(one) > 0]
    if not state.is_rolling_update and len(active) > 1:
        return False
    return any(DESIRED in notes and _parse_int(notes[DESIRED]) != state.replicas for notes in active)


def _scale(state: DeploymentState) -> Iterator[Effect]:
    active = [one for one in state.all if _size(one) > 0]
    if len(active) <= 1:
        only = active[0] if active else (state.new or max(state.all, key=_revision, default=None))
        if only is not None:
            yield from _resize(state, only, state.replicas)
        return
    if state.new is not None and _is_saturated(state, state.new):
        for one in state.old:
            if _size(one):
                yield from _resize(state, one, 0)
        return
    if state.is_rolling_update:
        for one, size in _proportional_sizes(state, active):
            yield from _resize(state, one, size)


def _is_saturated(state: DeploymentState, new: ReplicaSet) -> bool:
    return (
        _size(new) == state.replicas == new.status.available_replicas
        and _parse_int(new.metadata.annotations.get(DESIRED)) == state.replicas
    )


def _proportional_sizes(state: DeploymentState, active: Sequence[ReplicaSet]) -> list[tuple[ReplicaSet, int]]:
    """Scale every ReplicaSet of a rollout in progress proportionally; the largest takes the remainder."""
    allowed = state.replicas + state.max_surge if state.replicas else 0
    more = allowed - _total_size(active)
    newest_first = list(reversed(sort_oldest_first(active)))
    order = sorted(newest_first if more > 0 else sort_oldest_first(active), key=_size, reverse=True)
    sizes, added = [], 0
    for one in order:
        part = _proportional_change(state, one)
        part = min(part, more - added) if more > 0 else max(part, more - added)
        added += part
        sizes.append(_size(one) + part)
    sizes[0] = max(0, sizes[0] + more - added)
    return list(zip(order, sizes, strict=True))


def _proportional_change(state: DeploymentState, one: ReplicaSet) -> int:
    if not state.replicas:
        return -_size(one)
    before = _parse_int(one.metadata.annotations.get(MAX_REPLICAS)) or state.wanted.status.replicas or state.replicas
    return int(_size(one) * (state.replicas + state.max_surge) / before + 0.5) - _size(one)


# status


def _update_status(
    state: DeploymentState, view: View, *, progress: bool = True, created: Raw | None = None
) -> Iterator[Effect]:
    """Update status, conditions and revision, all through the status subresource, which keeps the generation."""
    numbers = _replica_counts(state, created)
    conditions = list((state.raw.get("status") or {}).get("conditions") or [])
    conditions = _set_condition(conditions, _available_condition(state, numbers, view.now))
    if state.wanted.spec.progress_deadline_seconds not in (None, NO_DEADLINE):
        conditions = _with_pause(conditions, state, view.now)
        if progress:
            conditions = _with_progress(conditions, state, numbers, view, created)
        if wait := _seconds_until_deadline(conditions, state, view.now):
            yield RequeueAfter(wait)
    conditions = _with_failure(conditions, state, view.now)
    status = {**(state.raw.get("status") or {}), **numbers, "conditions": conditions}
    status["observedGeneration"] = state.wanted.metadata.generation
    newest = created["metadata"]["annotations"][REVISION] if created else None
    if newest is None and state.new is not None:
        newest = str(max(max(map(_revision, state.old), default=0) + 1, _revision(state.new)))
    annotations = dict(state.raw["metadata"].get("annotations") or {})
    yield from update_status(state.raw, status, annotations | ({REVISION: newest} if newest else {}))


def _replica_counts(state: DeploymentState, created: Raw | None) -> dict[str, Any]:
    total = sum(one.status.replicas for one in state.all)
    available = sum(one.status.available_replicas for one in state.all)
    wanted = _total_size(state.all) + (created["spec"]["replicas"] if created else 0)
    return {
        "replicas": total,
        "updatedReplicas": state.new.status.replicas if state.new else 0,
        "readyReplicas": sum(one.status.ready_replicas for one in state.all),
        "availableReplicas": available,
        "unavailableReplicas": max(0, wanted - available),
        "terminatingReplicas": AlwaysWritten(sum(one.status.terminating_replicas or 0 for one in state.all)),
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


def _find_condition(conditions: Sequence[Raw], type_: str) -> Raw | None:
    return next((one for one in conditions if one["type"] == type_), None)


def _set_condition(conditions: list[Raw], new: Raw) -> list[Raw]:
    """Set this condition at the end of the list, unless its status and reason are unchanged."""
    present = _find_condition(conditions, new["type"])
    if present is not None:
        if present["status"] == new["status"] and present["reason"] == new["reason"]:
            return conditions
        if present["status"] == new["status"]:
            new = {**new, "lastTransitionTime": present["lastTransitionTime"]}
    return [*(one for one in conditions if one["type"] != new["type"]), new]


def _available_condition(state: DeploymentState, numbers: Mapping[str, Any], now: datetime) -> Raw:
    if numbers["availableReplicas"] >= state.replicas - state.max_unavailable:
        return _condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now)
    return _condition(
        "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now
    )


def _with_progress(
    conditions: list[Raw], state: DeploymentState, numbers: Mapping[str, Any], view: View, created: Raw | None
) -> list[Raw]:
    if created is not None:
        message = f'Created new replica set "{created["metadata"]["name"]}"'
        return _set_condition(conditions, _condition("Progressing", "True", "NewReplicaSetCreated", message, view.now))
    present = _find_condition(conditions, "Progressing")
    settled = numbers["replicas"] == numbers["updatedReplicas"]
    if settled and present is not None and present["reason"] == "NewReplicaSetAvailable":
        return conditions
    if present is None and state.new is not None:
        message = f'Found new replica set "{state.new.name}"'
        conditions = _set_condition(
            conditions, _condition("Progressing", "True", "FoundNewReplicaSet", message, view.now)
        )
        present = _find_condition(conditions, "Progressing")
    subject = f'ReplicaSet "{state.new.name}"' if state.new else f'Deployment "{state.wanted.name}"'
    if numbers["updatedReplicas"] == numbers["replicas"] == numbers["availableReplicas"] == state.replicas:
        done = f"{subject} has successfully progressed."
        return _set_condition(conditions, _condition("Progressing", "True", "NewReplicaSetAvailable", done, view.now))
    if _has_progressed(state, numbers):
        progressing = _condition("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.", view.now)
        if present is not None and present["status"] == "True":
            progressing["lastTransitionTime"] = present["lastTransitionTime"]
        return [*(one for one in conditions if one["type"] != "Progressing"), progressing]
    if present is not None and _has_timed_out(present, state, view.now):
        late = f"{subject} has timed out progressing."
        return _set_condition(
            conditions, _condition("Progressing", "False", "ProgressDeadlineExceeded", late, view.now)
        )
    return conditions


def _has_progressed(state: DeploymentState, numbers: Mapping[str, Any]) -> bool:
    before = state.wanted.status
    return bool(
        numbers["updatedReplicas"] > before.updated_replicas
        or numbers["replicas"] - numbers["updatedReplicas"] < before.replicas - before.updated_replicas
        or numbers["readyReplicas"] > before.ready_replicas
        or numbers["availableReplicas"] > before.available_replicas
    )


def _progress_deadline(present: Raw, state: DeploymentState) -> datetime:
    seconds = state.wanted.spec.progress_deadline_seconds or 0
    return datetime.fromisoformat(present["lastUpdateTime"]) + timedelta(seconds=seconds)


def _has_timed_out(present: Raw, state: DeploymentState, now: datetime) -> bool:
    if present["reason"] == "NewReplicaSetAvailable":
        return False
    return present["reason"] == "ProgressDeadlineExceeded" or _progress_deadline(present, state) < now


def _seconds_until_deadline(conditions: Sequence[Raw], state: DeploymentState, now: datetime) -> float | None:
    """Seconds until a rollout without progress times out; None when it has completed, failed or is paused."""
    present = _find_condition(conditions, "Progressing")
    ended = ("NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused")
    if present is None or present["reason"] in ended:
        return None
    return max(0.0, (_progress_deadline(present, state) - now).total_seconds()) + 1.0


def _with_pause(conditions: list[Raw], state: DeploymentState, now: datetime) -> list[Raw]:
    """Pausing suspends the progress deadline; resuming starts a new one."""
    present = _find_condition(conditions, "Progressing")
    if present is not None and present["reason"] == "ProgressDeadlineExceeded":
        return conditions
    paused = present is not None and present["reason"] == "DeploymentPaused"
    if state.wanted.spec.paused and not paused:
        return _set_condition(
            conditions, _condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now)
        )
    if paused and not state.wanted.spec.paused:
        message = "Deployment is resumed"
        return _set_condition(conditions, _condition("Progressing", "Unknown", "DeploymentResumed", message, now))
    return conditions


def _with_failure(conditions: list[Raw], state: DeploymentState, now: datetime) -> list[Raw]:
    """Copy `ReplicaFailure` from the newest ReplicaSet that has it."""
    others = [one for one in conditions if one["type"] != "ReplicaFailure"]
    for one in reversed(state.all):
        for condition in one.status.conditions:
            if condition.type == "ReplicaFailure" and condition.status == "True":
                failure = _condition("ReplicaFailure", "True", condition.reason, condition.message, now)
                return _set_condition(conditions, failure)
    return others
