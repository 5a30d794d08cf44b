"""Removes what the control plane's API server wrote into a template before it is propagated."""

from collections.abc import Callable

from trimtab.api.paths import dig, planted, table, tables, text, uprooted
from trimtab.api.value import Raw
from trimtab.interpret.native.retain import TOKEN_SECRET

_METADATA = frozenset(
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
_REVISIONS = frozenset(("deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"))
_CONTROLLER_LABELS = frozenset(("controller-uid", "batch.kubernetes.io/controller-uid"))
_JOB_LABELS = _CONTROLLER_LABELS | {"job-name", "batch.kubernetes.io/job-name"}
_ADDRESSES = frozenset(("clusterIP", "clusterIPs"))


def _without(obj: Raw, path: tuple[str, ...], keys: frozenset[str]) -> Raw:
    fields = dig(obj, *path)
    if not isinstance(fields, dict) or keys.isdisjoint(fields):
        return obj
    return planted(obj, {key: value for key, value in fields.items() if key not in keys}, *path)


def _deployment(obj: Raw) -> Raw:
    return _without(obj, ("metadata", "annotations"), _REVISIONS)


def _job(obj: Raw) -> Raw:
    obj = uprooted(obj, "spec", "ttlSecondsAfterFinished")
    if dig(obj, "spec", "manualSelector") is True:
        return obj
    obj = _without(obj, ("spec", "selector", "matchLabels"), _CONTROLLER_LABELS)
    return _without(obj, ("spec", "template", "metadata", "labels"), _JOB_LABELS)


def _service_account(obj: Raw) -> Raw:
    prefix = f"{text(obj, 'metadata', 'name')}-token-"
    secrets = tables(obj, "secrets")
    if not secrets:
        return obj
    return planted(obj, [secret for secret in secrets if not text(secret, "name").startswith(prefix)], "secrets")


def _service(obj: Raw) -> Raw:
    address = table(obj, "spec").get("clusterIP")
    return obj if address in (None, "None") else _without(obj, ("spec",), _ADDRESSES)


def _secret(obj: Raw) -> Raw:
    if text(obj, "type") != TOKEN_SECRET:
        return obj
    return uprooted(uprooted(obj, "data"), "metadata", "annotations", "kubernetes.io/service-account.uid")


def _claim(obj: Raw) -> Raw:
    return uprooted(obj, "metadata", "annotations", "volume.kubernetes.io/selected-node")


_BY_KIND: dict[str, Callable[[Raw], Raw]] = {
    "Deployment": _deployment,
    "Job": _job,
    "ServiceAccount": _service_account,
    "Service": _service,
    "Secret": _secret,
    "PersistentVolumeClaim": _claim,
}


def prune(obj: Raw) -> Raw:
    """`obj` as it goes into a Work: without status and the fields that its own API server owns."""
    obj = uprooted(_without(obj, ("metadata",), _METADATA), "status")
    prune_kind = _BY_KIND.get(text(obj, "kind"))
    return prune_kind(obj) if prune_kind else obj
