"""Plans a deletion: the object is removed, or marked until its finalizers and grace period have ended."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from trimtab.api.value import Raw
from trimtab.server import api_errors
from trimtab.server.request.options import DeleteOptions
from trimtab.server.resources import ServedResource

_ORPHANS_BY_DEFAULT = {"replicationcontrollers"}
"""Kinds whose dependents stay when a client does not say what to do with them."""
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_CRD = "customresourcedefinitions.apiextensions.k8s.io"
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_PROTECTED_NAMESPACES = {"default", "kube-system", "kube-public"}
_FINISHED_PHASES = {"Succeeded", "Failed"}
RETURNS_OBJECT = {
    "pods",
    "podtemplates",
    "persistentvolumes",
    "persistentvolumeclaims",
    "resourcequotas",
    "serviceaccounts",
    "namespaces",
    "storageclasses.storage.k8s.io",
}
"""Kinds whose deletion responds with the object also when it is removed at once."""

_FIRST_MOMENT, _LAST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


class DeletionPlan(NamedTuple):
    """The result of a deletion: the object, and whether it is removed."""

    obj: Raw
    removed: bool
    unchanged: bool = False


def _format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def plan_deletion(served: ServedResource, old: Raw, options: DeleteOptions, now: datetime) -> DeletionPlan:
    if served.storage == "namespaces":
        return _plan_namespace(old, now)
    metadata: Raw = {**old["metadata"]}
    obj = {**old, "metadata": metadata}
    default = "Orphan" if served.kind.id in _ORPHANS_BY_DEFAULT else ""
    _set_finalizers(served, metadata, options.propagation_policy or default)
    if served.storage == "pods" and (plan := _plan_pod(obj, options, now)):
        return plan
    if not metadata.get("finalizers"):
        _mark_deleted(metadata, now, 0)
        return DeletionPlan(obj, removed=True)
    if metadata.get("deletionTimestamp"):
        unchanged = metadata.get("finalizers") == old["metadata"].get("finalizers")
        if metadata.get("deletionGracePeriodSeconds"):
            metadata |= {"deletionTimestamp": _format_time(now), "deletionGracePeriodSeconds": 0}
            unchanged = False
        return DeletionPlan(obj, removed=False, unchanged=unchanged)
    _mark_deleted(metadata, now, 0)
    return DeletionPlan(obj, removed=False)


def _mark_deleted(metadata: Raw, now: datetime, grace: int) -> None:
    if metadata.get("deletionTimestamp"):
        metadata["deletionGracePeriodSeconds"] = grace
        return
    metadata |= {"deletionTimestamp": _format_time(_add_seconds(now, grace)), "deletionGracePeriodSeconds": grace}
    if metadata.get("generation"):
        metadata["generation"] += 1


def _add_seconds(moment: datetime, seconds: int) -> datetime:
    """The moment that many seconds later, as far as dates go: a grace period has 64 bits."""
    limit = int((_LAST_MOMENT - moment).total_seconds())
    earliest = int((_FIRST_MOMENT - moment).total_seconds())
    return moment + timedelta(seconds=max(earliest, min(limit, seconds)))


def _set_finalizers(served: ServedResource, metadata: Raw, policy: str) -> None:
    finalizers = list(metadata.get("finalizers") or [])
    if served.kind.id == _CRD and not metadata.get("deletionTimestamp") and CRD_FINALIZER not in finalizers:
        finalizers.append(CRD_FINALIZER)
    if policy:
        finalizers = [name for name in finalizers if name not in {_ORPHAN, _FOREGROUND}]
        finalizers += {"Orphan": [_ORPHAN], "Foreground": [_FOREGROUND]}.get(policy, [])
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _plan_pod(obj: Raw, options: DeleteOptions, now: datetime) -> DeletionPlan | None:
    """Pods on a node get a grace period; None when it does not apply."""
    metadata, spec = obj["metadata"], obj.get("spec", {})
    grace = options.grace_period_seconds
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", 30)
    grace = 1 if grace < 0 else grace
    if not spec.get("nodeName") or obj.get("status", {}).get("phase") in _FINISHED_PHASES:
        grace = 0
    deleted_at = metadata.get("deletionTimestamp")
    if not deleted_at:
        if grace == 0:
            return None
        _mark_deleted(metadata, now, grace)
        return DeletionPlan(obj, removed=False)
    current = metadata.get("deletionGracePeriodSeconds") or 0
    if current == 0 or (grace == 0 and options.grace_period_seconds is not None):
        return None
    if options.grace_period_seconds is None or grace >= current:
        return DeletionPlan(obj, removed=False, unchanged=True)
    earlier = _add_seconds(datetime.fromisoformat(deleted_at), grace - current)
    metadata |= {"deletionTimestamp": _format_time(earlier), "deletionGracePeriodSeconds": grace}
    return DeletionPlan(obj, removed=False)


def _plan_namespace(old: Raw, now: datetime) -> DeletionPlan:
    name = old["metadata"]["name"]
    if name in _PROTECTED_NAMESPACES:
        raise api_errors.forbidden("namespaces", "", name, "this namespace may not be deleted")
    if old["metadata"].get("deletionTimestamp"):
        pending: Any = old.get("spec", {}).get("finalizers") or old["metadata"].get("finalizers")
        return DeletionPlan(old, removed=not pending, unchanged=bool(pending))
    metadata = {**old["metadata"], "deletionTimestamp": _format_time(now)}
    return DeletionPlan(
        {**old, "metadata": metadata, "status": {**old.get("status", {}), "phase": "Terminating"}}, removed=False
    )
