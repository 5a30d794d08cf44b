"""The Deployment controller: rolls out templates through ReplicaSets."""

from collections.abc import Iterator, Sequence

from trimtab.api.kinds.native.apps import Deployment, ReplicaSet
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Key, Raw
from trimtab.controllers.contract import Delete, Effect, Ensure, RecordEvent, Trigger, View
from trimtab.simulate.workloads.adoption import claim_children, orphan_trigger, orphans_by_namespace
from trimtab.simulate.workloads.deployment_state import (
    DESIRED,
    HASH_LABEL,
    HISTORY,
    MAX_REPLICAS,
    REVISION,
    DeploymentState,
    is_complete,
    observe,
    parse_int,
    revision_of,
    size_of,
    total_size,
    without_hash,
)
from trimtab.simulate.workloads.deployment_status import report_status
from trimtab.simulate.workloads.owned_pods import (
    PODS_BY_OWNER,
    children_by_owner,
    owner_reference,
    owner_trigger,
    ref_to,
    safe_hash,
    sort_oldest_first,
)
from trimtab.simulate.workloads.registry import workload

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
    state = observe(wanted, claim.children, view)
    if wanted.spec.paused or _is_scaling_event(state):
        yield from _scale(state)
        yield from report_status(state, view, progress=False)
        return
    if state.new is None:
        if not state.is_rolling_update and _has_running_old_pods(state, view):
            yield from _scale_old_to_zero(state)
            yield from report_status(state, view)
            return
        created = _new_replicaset(state)
        yield Ensure(created)
        yield _scaling_event(state, created["metadata"]["name"], 0, created["spec"]["replicas"])
        yield from report_status(state, view, created=created)
        return
    yield from _sync_revision(state, view)
    yield from _roll_out(state, view)
    yield from report_status(state, view)


# ReplicaSets


def _new_replicaset(state: DeploymentState) -> Raw:
    """The ReplicaSet of the current template."""
    meta, spec = state.raw["metadata"], state.raw["spec"]
    collisions = (state.raw.get("status") or {}).get("collisionCount") or 0
    template_hash = safe_hash([without_hash(spec["template"]), collisions])
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
                REVISION: str(max(map(revision_of, state.old), default=0) + 1),
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
    if size == size_of(one) and annotations == one.metadata.annotations:
        return
    yield one.but(metadata=one.metadata.but(annotations=annotations), spec=one.spec.but(replicas=size))
    if size != size_of(one):
        yield _scaling_event(state, one.name, size_of(one), size)


def _sync_revision(state: DeploymentState, view: View) -> Iterator[Effect]:
    """Give the newest revision to a template that was rolled back to."""
    if state.new is None:
        return
    newest = str(max(max(map(revision_of, state.old), default=0) + 1, revision_of(state.new)))
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
    size = state.replicas if size_of(new) > state.replicas else _new_replicaset_size(state, size_of(new))
    if size != size_of(new):
        yield from _resize(state, new, size)
        return
    step = list(_scale_down_old(state, new)) if state.is_rolling_update else []
    yield from step
    if not step and is_complete(state):
        yield from _delete_old_replicasets(state)


def _new_replicaset_size(state: DeploymentState, present: int) -> int:
    if not state.is_rolling_update:
        return state.replicas
    room = state.replicas + state.max_surge - total_size(state.all)
    return present + min(room, state.replicas - present) if room > 0 else present


def _scale_down_old(state: DeploymentState, new: ReplicaSet) -> Iterator[Effect]:
    """Scale old ReplicaSets down while enough pods are available; unavailable pods first."""
    enough = state.replicas - state.max_unavailable
    spare = total_size(state.all) - enough - (size_of(new) - new.status.available_replicas)
    if spare <= 0 or not total_size(state.old):
        return
    sizes = {one.name: size_of(one) for one in state.old}
    for one in state.old:
        unavailable = max(0, size_of(one) - one.status.available_replicas)
        taken = min(spare, unavailable)
        sizes[one.name] -= taken
        spare -= taken
    available = sum(one.status.available_replicas for one in state.all) - enough
    for one in state.old:
        taken = max(0, min(available, sizes[one.name]))
        sizes[one.name] -= taken
        available -= taken
    for one in state.old:
        if sizes[one.name] != size_of(one):
            yield from _resize(state, one, sizes[one.name])


def _has_running_old_pods(state: DeploymentState, view: View) -> bool:
    return any(
        not pod.is_terminal for one in state.old for pod in view.by_index(PODS_BY_OWNER, one.metadata.uid)
    ) or bool(total_size(state.old))


def _scale_old_to_zero(state: DeploymentState) -> Iterator[Effect]:
    for one in state.old:
        if size_of(one):
            yield from _resize(state, one, 0)


def _delete_old_replicasets(state: DeploymentState) -> Iterator[Effect]:
    """Delete old ReplicaSets beyond the history limit."""
    limit = state.wanted.spec.revision_history_limit
    kept = 10 if limit is None else limit
    idle = [one for one in state.old if size_of(one) == 0 and one.status.replicas == 0 and not _is_deleting(one)]
    for one in sorted(idle, key=revision_of)[: max(0, len(idle) - kept)]:
        yield Delete(one)


def _is_deleting(one: ReplicaSet) -> bool:
    return one.metadata.deletion_timestamp is not None


# scaling


def _is_scaling_event(state: DeploymentState) -> bool:
    """Whether the wanted replicas changed while ReplicaSets run: scaling comes before everything else."""
    active = [one.metadata.annotations for one in state.all if size_of(one) > 0]
    if not state.is_rolling_update and len(active) > 1:
        return False
    return any(DESIRED in notes and parse_int(notes[DESIRED]) != state.replicas for notes in active)


def _scale(state: DeploymentState) -> Iterator[Effect]:
    active = [one for one in state.all if size_of(one) > 0]
    if len(active) <= 1:
        only = active[0] if active else (state.new or max(state.all, key=revision_of, default=None))
        if only is not None:
            yield from _resize(state, only, state.replicas)
        return
    if state.new is not None and _is_saturated(state, state.new):
        for one in state.old:
            if size_of(one):
                yield from _resize(state, one, 0)
        return
    if state.is_rolling_update:
        for one, size in _proportional_sizes(state, active):
            yield from _resize(state, one, size)


def _is_saturated(state: DeploymentState, new: ReplicaSet) -> bool:
    return (
        size_of(new) == state.replicas == new.status.available_replicas
        and parse_int(new.metadata.annotations.get(DESIRED)) == state.replicas
    )


def _proportional_sizes(state: DeploymentState, active: Sequence[ReplicaSet]) -> list[tuple[ReplicaSet, int]]:
    """Scale every ReplicaSet of a rollout in progress proportionally; the largest takes the remainder."""
    allowed = state.replicas + state.max_surge if state.replicas else 0
    more = allowed - total_size(active)
    newest_first = list(reversed(sort_oldest_first(active)))
    order = sorted(newest_first if more > 0 else sort_oldest_first(active), key=size_of, reverse=True)
    sizes, added = [], 0
    for one in order:
        part = _proportional_change(state, one)
        part = min(part, more - added) if more > 0 else max(part, more - added)
        added += part
        sizes.append(size_of(one) + part)
    sizes[0] = max(0, sizes[0] + more - added)
    return list(zip(order, sizes, strict=True))


def _proportional_change(state: DeploymentState, one: ReplicaSet) -> int:
    if not state.replicas:
        return -size_of(one)
    before = parse_int(one.metadata.annotations.get(MAX_REPLICAS)) or state.wanted.status.replicas or state.replicas
    return int(size_of(one) * (state.replicas + state.max_surge) / before + 0.5) - size_of(one)


# status
