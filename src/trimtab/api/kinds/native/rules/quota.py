"""What kube-apiserver rejects in ResourceQuotas and LimitRanges."""

from collections.abc import Iterator, Mapping, Sequence

from trimtab.api.field_errors import duplicate, forbidden, invalid, required
from trimtab.api.kinds.native.rules import common
from trimtab.api.names import qualified_name_faults
from trimtab.api.paths import object_at
from trimtab.api.quantity import canonical_form, parse_quantity
from trimtab.api.value import QuantityText, Raw
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


_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_CONTAINER_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage"))
_OVERCOMMITTED = frozenset(("cpu", "memory", "ephemeral-storage", "storage"))
"""Resources of which requests and limits may differ; other resources are of extensions, or huge pages."""
_POD_TEXT = "may not be specified when `type` is 'Pod'"


def check_limit_range(new: Raw, old: Raw | None) -> Sequence[Cause]:
    found: list[Cause] = []
    types: set[str] = set()
    for index, item in enumerate(object_at(new, "spec").get("limits") or ()):
        field, type_ = f"spec.limits[{index}]", item.get("type") or ""
        found += _check_limit_type(type_, f"{field}.type")
        if type_ in types:
            found.append(duplicate(f"{field}.type", type_))
        types.add(type_)
        found += _check_limit_item(item, type_, field)
    return found


def _check_limit_type(type_: str, field: str) -> Iterator[Cause]:
    if faults := qualified_name_faults(type_):
        yield from (invalid(field, type_, fault) for fault in faults)
    elif "/" not in type_ and type_ not in _LIMIT_TYPES:
        yield invalid(field, type_, "must be a standard limit type or fully qualified")


def _check_limit_item(item: Raw, type_: str, field: str) -> Iterator[Cause]:
    checked = ["max", "min", "maxLimitRequestRatio"]
    if type_ == "Pod":
        yield from (forbidden(f"{field}.{name}", _POD_TEXT) for name in ("default", "defaultRequest") if item.get(name))
    else:
        checked += ["default", "defaultRequest"]
    for part in checked:
        for name in item.get(part) or {}:
            yield from _check_limited_resource(name, type_, f"{field}.{part}[{name}]")
    if type_ == "PersistentVolumeClaim" and not any("storage" in (item.get(part) or {}) for part in ("min", "max")):
        text = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{field}.limits", text)
    for name in sorted({name for part in checked for name in item.get(part) or {}}):
        yield from _check_order({part: (item.get(part) or {}).get(name) for part in checked}, name, field)


def _check_limited_resource(name: str, type_: str, field: str) -> Iterator[Cause]:
    if faults := qualified_name_faults(name):
        yield from (invalid(field, name, fault) for fault in faults)
    elif "/" not in name and type_ in ("Pod", "Container"):
        if name not in _CONTAINER_RESOURCES and not name.startswith("hugepages-"):
            yield invalid(field, name, "must be a standard resource for containers")
    elif "/" not in name and name not in _QUOTA_RESOURCES and name != "storage" and not name.startswith("hugepages-"):
        yield invalid(field, name, "must be a standard resource type or fully qualified")


_ORDERS = (
    # (field of the error, smaller part, larger part, texts of both, part whose value the error shows)
    ("min", "min", "max", "min value", "max value", "min"),
    ("defaultRequest", "min", "defaultRequest", "min value", "default request value", "defaultRequest"),
    ("defaultRequest", "defaultRequest", "max", "default request value", "max value", "defaultRequest"),
    ("defaultRequest", "defaultRequest", "default", "default request value", "default limit value", "defaultRequest"),
    ("default", "min", "default", "min value", "default value", "min"),
    ("default", "default", "max", "default value", "max value", "max"),
)


def _check_order(values: Mapping[str, QuantityText | None], name: str, field: str) -> Iterator[Cause]:
    """The bounds and defaults of one resource must fit together."""
    texts = {part: canonical_form(value) for part, value in values.items() if value is not None}
    amounts = {part: parse_quantity(text) for part, text in texts.items()}
    for where, low, high, low_text, high_text, shown in _ORDERS:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            text = f"{low_text} {texts[low]} is greater than {high_text} {texts[high]}"
            yield invalid(f"{field}.{where}[{name}]", texts[shown], text)
    if (ratio := amounts.get("maxLimitRequestRatio")) is not None:
        where, shown = f"{field}.maxLimitRequestRatio[{name}]", texts["maxLimitRequestRatio"]
        if ratio < 1:
            yield invalid(where, shown, f"ratio {shown} is less than 1")
        if amounts.get("min") and "max" in amounts and ratio > amounts["max"] / amounts["min"]:
            most = float(amounts["max"] / amounts["min"])
            yield invalid(where, shown, f"ratio {shown} is greater than max/min = {most:f}")
    defaults = [amounts.get(part) for part in ("default", "defaultRequest")]
    if name not in _OVERCOMMITTED and None not in defaults and defaults[0] != defaults[1]:
        text = (
            f"default value {texts['default']} must equal to defaultRequest value {texts['defaultRequest']} in {name}"
        )
        yield invalid(f"{field}.defaultRequest[{name}]", texts["defaultRequest"], text)
