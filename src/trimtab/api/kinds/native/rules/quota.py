"""What kube-apiserver rejects in ResourceQuotas."""

from collections.abc import Iterator, Sequence

from trimtab.api.field_errors import invalid, required
from trimtab.api.kinds.native.rules import common
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_QUOTA_RESOURCES = frozenset(
    f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")
) | frozenset(
    {
        "requests.storage",
        "pods",
        "services",
        "services.nodeports",
        "services.loadbalancers",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
    }
)

_BEST_EFFORT_RESOURCES = frozenset(("pods", "count/pods"))
_CONFLICTING_SCOPES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_EXISTS_ONLY_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity")


def check_resource_quota(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    found: list[Cause] = []
    for name in sorted(spec.get("hard") or {}):
        if "/" not in name and name not in _QUOTA_RESOURCES and "hugepages-" not in name:
            found.append(invalid(f"spec.hard[{name}]", name, "must be a standard resource type or fully qualified"))
            found.append(invalid(f"spec.hard[{name}]", name, "must be a standard resource for quota"))
    found += common.check_quantities(spec.get("hard"), "spec.hard")
    for requirement in object_at(spec, "scopeSelector").get("matchExpressions") or ():
        found += _check_scope_requirement(requirement, "spec.scopeSelector.matchExpressions")
    found += _check_scopes(spec.get("scopes") or [], spec.get("hard") or {})
    if old is not None:
        found += common.check_unchanged(spec.get("scopes"), object_at(old, "spec").get("scopes"), "spec.scopes")
    return found


def _check_scopes(scopes: list[str], hard: Raw) -> Iterator[Cause]:
    if any(scope not in (*_EXISTS_ONLY_SCOPES, "PriorityClass") for scope in scopes):
        yield invalid("spec.scopes", scopes, "unsupported scope")
    if "BestEffort" in scopes and set(hard) - _BEST_EFFORT_RESOURCES:
        yield invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    if any(set(pair) <= set(scopes) for pair in _CONFLICTING_SCOPES):
        yield invalid("spec.scopes", scopes, "conflicting scopes")


def _check_scope_requirement(requirement: Raw, field: str) -> Iterator[Cause]:
    """One requirement of a scope selector; kube-apiserver reports it without its index."""
    scope, operator, values = (
        requirement.get("scopeName", ""),
        requirement.get("operator", ""),
        requirement.get("values") or [],
    )
    if scope not in (*_EXISTS_ONLY_SCOPES, "PriorityClass"):
        yield invalid(f"{field}.scopeName", scope, "unsupported scope")
    if scope in _EXISTS_ONLY_SCOPES and operator != "Exists":
        scope_names = " or ".join(
            ", ".join(f"ResourceQuotaScope{name}" for name in _EXISTS_ONLY_SCOPES).rsplit(", ", 1)
        )
        yield invalid(f"{field}.operator", operator, f"must be 'Exists' when scope is any of {scope_names}")
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield required(f"{field}.values", text)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield invalid(f"{field}.values", values, text)
    else:
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")
