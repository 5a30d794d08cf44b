"""The state of a whole fleet at one time, and what is wrong with it when nothing disturbs it any more."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from soak.checker import outcome_of
from trimtab.api.value import Raw
from trimtab.controllers import well_known

NAMESPACE = "default"


class MemberState(NamedTuple):
    """The objects of one member."""

    deployments: list[Raw]
    pods: list[Raw]


class Snapshot(NamedTuple):
    """Everything that the rules need; read from the API servers."""

    templates: list[Raw]
    bindings: list[Raw]
    works: list[Raw]
    moves: list[Raw]
    clusters: list[Raw]
    members: dict[str, MemberState]


def complaints(state: Snapshot) -> list[str]:
    """What has not settled, is missing, or was left behind; empty for a fleet at rest."""
    return [
        *_unjoined(state),
        *_open_moves(state),
        *(text for template in state.templates for text in _misplaced(template, state)),
        *_orphaned_bindings(state),
        *_orphaned_works(state),
        *_orphaned_objects(state),
    ]


def _unjoined(state: Snapshot) -> Iterator[str]:
    for name in sorted(state.members):
        cluster = next((c for c in state.clusters if c["metadata"]["name"] == name), None)
        if cluster is None:
            yield f"{name} is not joined"
        elif cluster["metadata"].get("deletionTimestamp"):
            yield f"{name} is being deleted"
        elif not _is_ready(cluster):
            yield f"{name} is not Ready"


def _open_moves(state: Snapshot) -> Iterator[str]:
    for move in state.moves:
        if not outcome_of(move):
            spec = move["spec"]
            yield f"the move of {spec['object']['name']} from {spec['from']} ({spec['cause']}) is in progress"


def _misplaced(template: Raw, state: Snapshot) -> Iterator[str]:
    """Differences between the wanted replicas, the placement, the members' objects and the ready pods."""
    app, wanted = template["metadata"]["name"], template["spec"]["replicas"]
    binding = next((b for b in state.bindings if b["spec"]["resource"]["name"] == app), None)
    if binding is None:
        yield f"{app} has no binding"
        return
    spec, status = binding["spec"], binding.get("status") or {}
    placed = {target["name"]: target.get("replicas", 0) for target in spec.get("clusters") or ()}
    duplicated = _is_duplicated(spec)
    if not placed or (set(placed.values()) != {wanted} if duplicated else sum(placed.values()) != wanted):
        yield f"{app} wants {wanted} replicas{' in each cluster' if duplicated else ''}, it is placed as {placed}"
    if spec.get("gracefulEvictionTasks") or status.get("holds"):
        yield f"{app} has evictions or holds: {spec.get('gracefulEvictionTasks')} {status.get('holds')}"
    desired = {
        name: deployment["spec"]["replicas"]
        for name, member in state.members.items()
        for deployment in member.deployments
        if deployment["metadata"]["name"] == app
    }
    if desired != placed:
        yield f"{app} is placed as {placed}, the members' objects ask for {desired}"
    ready = Counter(
        name for name, member in state.members.items() for pod in member.pods if app_of(pod) == app and is_ready(pod)
    )
    if dict(ready) != {name: count for name, count in placed.items() if count}:
        yield f"{app} is placed as {placed}, ready are {dict(ready)}"


def _orphaned_bindings(state: Snapshot) -> Iterator[str]:
    uids = {template["metadata"]["uid"] for template in state.templates}
    for binding in state.bindings:
        if binding["spec"]["resource"].get("uid") not in uids:
            yield f"the binding {binding['metadata']['name']} has no template"


def _orphaned_works(state: Snapshot) -> Iterator[str]:
    placed = {
        (binding["metadata"]["name"], target["name"])
        for binding in state.bindings
        for target in binding["spec"].get("clusters") or ()
    }
    for work in state.works:
        metadata = work["metadata"]
        name = (metadata.get("annotations") or {}).get(well_known.RB_NAME)
        cluster = well_known.cluster_of(metadata["namespace"])
        if name is not None and (name, cluster) not in placed:
            yield f"the Work {metadata['namespace']}/{metadata['name']} has no binding that places it there"


def _orphaned_objects(state: Snapshot) -> Iterator[str]:
    works = {(work["metadata"]["namespace"], work["metadata"]["name"]) for work in state.works}
    for name, member in state.members.items():
        for deployment in member.deployments:
            if well_known.labels_of(deployment).get(well_known.MANAGED) != "true":
                continue
            notes = well_known.annotations_of(deployment)
            if (notes.get(well_known.WORK_NAMESPACE), notes.get(well_known.WORK_NAME)) not in works:
                yield f"the Deployment {deployment['metadata']['name']} in {name} has no Work"
        kept = {deployment["metadata"]["name"] for deployment in member.deployments}
        for app in sorted({app_of(pod) for pod in member.pods} - kept - {""}):
            yield f"pods of {app} in {name} have no Deployment"


def _is_duplicated(spec: Raw) -> bool:
    scheduling = (spec.get("placement") or {}).get("replicaScheduling") or {}
    return scheduling.get("replicaSchedulingType", "Duplicated") == "Duplicated"


def app_of(pod: Raw) -> str:
    """The app of a pod; empty for other pods."""
    return well_known.labels_of(pod).get("app", "")


def is_ready(obj: Raw) -> bool:
    """Whether a pod is ready and stays."""
    return not obj["metadata"].get("deletionTimestamp") and _is_ready(obj)


def _is_ready(obj: Raw) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
