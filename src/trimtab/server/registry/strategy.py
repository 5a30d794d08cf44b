"""Create and update strategies: which fields a path may write, and when the generation is incremented."""

from collections.abc import Callable, Iterable, Mapping

from trimtab.api.value import Raw
from trimtab.server.resources import ServedResource

_HAS_GENERATION = {
    "pods",
    "replicationcontrollers",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "replicasets.apps",
    "jobs.batch",
    "cronjobs.batch",
    "ingresses.networking.k8s.io",
    "ingressclasses.networking.k8s.io",
    "networkpolicies.networking.k8s.io",
    "poddisruptionbudgets.policy",
    "customresourcedefinitions.apiextensions.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "priorityclasses.scheduling.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "clusters.cluster.karmada.io",
}
"""Built-in kinds that have a generation."""
_IDENTITY = ("name", "namespace", "uid", "creationTimestamp", "selfLink")
_LIFECYCLE = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_TYPE = ("apiVersion", "kind", "metadata")
_STATUS_ON_CREATE = {"nodes", "persistentvolumes", "services"}
"""Built-in kinds that keep their status on creation, because the component that creates them also reports it."""
_STATUS_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
"""What a write through the status of a built-in kind may change of its metadata."""
_STATUS_KEEPS: Mapping[str, Iterable[str]] = {
    "deployments.apps": ("labels",),
    "pods": ("ownerReferences",),
    "customresourcedefinitions.apiextensions.k8s.io": _STATUS_METADATA,
    "flowschemas.flowcontrol.apiserver.k8s.io": _STATUS_METADATA,
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": _STATUS_METADATA,
    "validatingadmissionpolicies.admissionregistration.k8s.io": _STATUS_METADATA,
}
"""Built-in kinds of which it changes less, as in kube-apiserver."""
_RESIZED_FIELDS = ("resources", "resizePolicy")
_ANNOTATIONS_BUMP_GENERATION = {"deployments.apps"}


def keeps_status_on_create(served: ServedResource) -> bool:
    return served.kind.id in _STATUS_ON_CREATE


def prepare_create(served: ServedResource, obj: Raw, initial_status: Raw | None, *, whole: bool = False) -> None:
    """Drop fields that a client may not set on creation; `obj` and its metadata are the caller's own copies.

    `whole`: the status may be set, too.
    """
    metadata = obj["metadata"]
    for key in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(key, None)
    if served.kind.status and not whole and not keeps_status_on_create(served):
        obj.pop("status", None)
        if initial_status is not None:
            obj["status"] = initial_status


def set_server_fields(served: ServedResource, obj: Raw) -> None:
    """Add fields that only the server sets and nobody owns; `obj` and its metadata are the caller's own copies."""
    if served.kind.custom or served.kind.id in _HAS_GENERATION:
        obj["metadata"]["generation"] = 1
    if served.kind.id == "namespaces":
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        obj["spec"] = {"finalizers": finalizers if "kubernetes" in finalizers else [*finalizers, "kubernetes"]}
        obj["status"] = {"phase": "Active"}
    if served.kind.id == "apiservices.apiregistration.k8s.io" and not obj.get("spec", {}).get("service"):
        obj["status"] = {"conditions": [_local_api_service_condition(obj["metadata"]["creationTimestamp"])]}
    if served.kind.id == "customresourcedefinitions.apiextensions.k8s.io":
        versions = obj.get("spec", {}).get("versions") or ()
        stored = [version.get("name", "") for version in versions if version.get("storage")]
        obj["status"] = {**obj.get("status", {}), "storedVersions": stored}


def _local_api_service_condition(now: str) -> Raw:
    message = "Local APIServices are always available"
    return {"type": "Available", "status": "True", "lastTransitionTime": now, "reason": "Local", "message": message}


def prepare_update(served: ServedResource, new: Raw, old: Raw, subresource: str, *, whole: bool = False) -> Raw:
    """The object that a write through this path makes; fields that the path does not own keep their old values."""
    before, after = old["metadata"], new["metadata"]
    if subresource == "status":
        updated = {**old, "metadata": {**before, "managedFields": after.get("managedFields", [])}}
        if not served.kind.custom:
            kept = _STATUS_KEEPS.get(served.kind.id, ())
            copy_members(updated["metadata"], after, *(key for key in _STATUS_METADATA if key not in kept))
        copy_members(updated, new, "status")
        return updated
    if subresource in _PART_WRITERS:
        kept = {**old, "metadata": {**before, "managedFields": after.get("managedFields", [])}}
        return _with_next_generation(served, _PART_WRITERS[subresource](kept, new), old)
    updated = {**new, "apiVersion": old["apiVersion"], "kind": old["kind"]}
    metadata = updated["metadata"] = {**after}
    copy_members(metadata, before, *_IDENTITY, *_LIFECYCLE)
    if subresource == "binding":
        return updated  # a binding sets the node and the status of a pod in one step
    if served.kind.status and not whole:
        copy_members(updated, old, "status")
    if served.kind.id == "namespaces":
        updated["spec"] = old.get("spec", {})
    return _with_next_generation(served, updated, old)


def _with_next_generation(served: ServedResource, updated: Raw, old: Raw) -> Raw:
    """The object with an incremented generation if it has one and the change requires it; its metadata are a copy."""
    metadata = updated["metadata"]
    if "generation" in metadata and _bumps_generation(served, updated, old):
        metadata["generation"] = old["metadata"]["generation"] + 1
    return updated


def _with_finalizers(old: Raw, new: Raw) -> Raw:
    finalizers = (new.get("spec") or {}).get("finalizers") or []
    return {**old, "spec": {**old.get("spec", {}), "finalizers": finalizers}}


def _with_approval(old: Raw, new: Raw) -> Raw:
    status, metadata = {**(old.get("status") or {})}, {**old["metadata"]}
    copy_members(status, new.get("status") or {}, "conditions")
    copy_members(metadata, new["metadata"], *_STATUS_METADATA)
    return {**old, "metadata": metadata, "status": status}


def _with_ephemeral_containers(old: Raw, new: Raw) -> Raw:
    spec = {**old["spec"]}
    copy_members(spec, new.get("spec") or {}, "ephemeralContainers")
    return {**old, "spec": spec}


def _with_resources(old: Raw, new: Raw) -> Raw:
    """The pod with new resources of the containers that it has, found by name and position."""
    spec: Raw = {**old["spec"]}
    for part in ("containers", "initContainers"):
        wanted = (new.get("spec") or {}).get(part) or []
        containers = [{**container} for container in spec.get(part) or ()]
        for container, other in zip(containers, wanted, strict=False):
            if container["name"] == other.get("name"):
                copy_members(container, other, *_RESIZED_FIELDS)
        if part in spec:
            spec[part] = containers
    return {**old, "spec": spec}


_PART_WRITERS: Mapping[str, Callable[[Raw, Raw], Raw]] = {
    "approval": _with_approval,
    "ephemeralcontainers": _with_ephemeral_containers,
    "finalize": _with_finalizers,
    "resize": _with_resources,
}
"""Subresources that own one part of an object; whoever may write them may change nothing else of spec and status."""


def copy_members(target: Raw, source: Raw, *keys: str) -> None:
    """Give `target` these members of `source`; those that are missing there are removed."""
    for key in keys:
        if key in source:
            target[key] = source[key]
        elif key in target:
            del target[key]


def _bumps_generation(served: ServedResource, new: Raw, old: Raw) -> bool:
    """Whether the change requires a new generation."""
    ignored = (*_TYPE, "status") if served.kind.status else _TYPE
    if _omit(new, ignored) != _omit(old, ignored):
        return True
    annotations = (obj["metadata"].get("annotations") or {} for obj in (new, old))
    return (
        served.kind.id in _ANNOTATIONS_BUMP_GENERATION
        and len({tuple(sorted(found.items())) for found in annotations}) > 1
    )


def _omit(obj: Raw, ignored: tuple[str, ...]) -> Raw:
    return {key: value for key, value in obj.items() if key not in ignored}
