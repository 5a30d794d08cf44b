"""Removes what the control plane's API server wrote into a template before it is propagated."""

from collections.abc import Callable

from trimtab.api.paths import object_at, objects_at, string_at, value_at, with_value, without_value
from trimtab.api.value import Raw
from trimtab.interpret.native.retain import TOKEN_SECRET

_SERVER_METADATA = frozenset(
    (
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
        "ownerReferences",
        "finalizers",
    )
)
_REVISION_ANNOTATIONS = frozenset(("deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"))
_CONTROLLER_LABELS = frozenset(("controller-uid", "batch.kubernetes.io/controller-uid"))
_JOB_LABELS = _CONTROLLER_LABELS | {"job-name", "batch.kubernetes.io/job-name"}
_CLUSTER_IP_FIELDS = frozenset(("clusterIP", "clusterIPs"))


def _remove_keys(obj: Raw, path: tuple[str, ...], keys: frozenset[str]) -> Raw:
    fields = value_at(obj, *path)
    if not isinstance(fields, dict) or keys.isdisjoint(fields):
        return obj
    return with_value(obj, {key: value for key, value in fields.items() if key not in keys}, *path)


def _prune_deployment(obj: Raw) -> Raw:
    return _remove_keys(obj, ("metadata", "annotations"), _REVISION_ANNOTATIONS)


def _prune_job(obj: Raw) -> Raw:
    obj = without_value(obj, "spec", "ttlSecondsAfterFinished")
    if value_at(obj, "spec", "manualSelector") is True:
        return obj
    obj = _remove_keys(obj, ("spec", "selector", "matchLabels"), _CONTROLLER_LABELS)
    return _remove_keys(obj, ("spec", "template", "metadata", "labels"), _JOB_LABELS)


def _prune_service_account(obj: Raw) -> Raw:
    prefix = f"{string_at(obj, 'metadata', 'name')}-token-"
    secrets = objects_at(obj, "secrets")
    if not secrets:
        return obj
    return with_value(
        obj, [secret for secret in secrets if not string_at(secret, "name").startswith(prefix)], "secrets"
    )


def _prune_service(obj: Raw) -> Raw:
    address = object_at(obj, "spec").get("clusterIP")
    return obj if address in (None, "None") else _remove_keys(obj, ("spec",), _CLUSTER_IP_FIELDS)


def _prune_secret(obj: Raw) -> Raw:
    if string_at(obj, "type") != TOKEN_SECRET:
        return obj
    return without_value(without_value(obj, "data"), "metadata", "annotations", "kubernetes.io/service-account.uid")


def _prune_claim(obj: Raw) -> Raw:
    return without_value(obj, "metadata", "annotations", "volume.kubernetes.io/selected-node")


_PRUNERS: dict[str, Callable[[Raw], Raw]] = {
    "Deployment": _prune_deployment,
    "Job": _prune_job,
    "ServiceAccount": _prune_service_account,
    "Service": _prune_service,
    "Secret": _prune_secret,
    "PersistentVolumeClaim": _prune_claim,
}


def prune(obj: Raw) -> Raw:
    """`obj` as it goes into a Work: without status and the fields that its own API server owns."""
    metadata, kind = obj.get("metadata"), obj.get("kind")
    if isinstance(metadata, dict) and not _SERVER_METADATA.isdisjoint(metadata):
        kept = {key: value for key, value in metadata.items() if key not in _SERVER_METADATA}
        obj = {**obj, "metadata": kept}
    if "status" in obj:
        obj = without_value(obj, "status")
    prune_kind = _PRUNERS.get(kind) if isinstance(kind, str) else None
    return prune_kind(obj) if prune_kind else obj
