"""What kube-apiserver rejects in the rules and conditions by which webhooks and admission policies select requests."""

from collections.abc import Iterator, Sequence

from trimtab.api.field_errors import duplicate, invalid, required, too_many
from trimtab.api.kinds.native.rules import common
from trimtab.api.names import path_segment_faults, qualified_name_faults
from trimtab.api.value import Raw
from trimtab.errors import Cause

MAX_CONDITIONS = 64
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_MATCH_POLICIES = ("Equivalent", "Exact")


def check_rule(rule: Raw, field: str) -> Iterator[Cause]:
    """A rule that names operations and resources."""
    operations = rule.get("operations") or []
    if not operations:
        yield required(f"{field}.operations")
    if "*" in operations and len(operations) > 1:
        yield invalid(f"{field}.operations", operations, "if '*' is present, must not specify other operations")
    for index, operation in enumerate(operations):
        yield from common.check_one_of(operation, _OPERATIONS, f"{field}.operations[{index}]")
    for name, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(name) or []
        if not values:
            yield required(f"{field}.{name}")
        if "*" in values and len(values) > 1:
            yield invalid(f"{field}.{name}", values, f"if '*' is present, must not specify other {what}")
    yield from _check_resources(rule.get("resources") or [], f"{field}.resources")
    if rule.get("scope") is not None:
        yield from common.check_one_of(rule["scope"], _SCOPES, f"{field}.scope")
    yield from _check_resource_names(rule.get("resourceNames") or (), f"{field}.resourceNames")


def _check_resources(resources: Sequence[str], field: str) -> Iterator[Cause]:
    if not resources:
        yield required(field)
    any_subresource: set[str] = set()
    of_any_resource: set[str] = set()
    for index, name in enumerate(resources):
        if not name:
            yield required(f"{field}[{index}]")
        resource, separator, subresource = name.partition("/")
        if not separator:
            continue
        if resource in any_subresource:
            yield invalid(f"{field}[{index}]", name, f"if '{resource}/*' is present, must not specify {name}")
        if subresource in of_any_resource:
            yield invalid(f"{field}[{index}]", name, f"if '*/{subresource}' is present, must not specify {name}")
        if subresource == "*":
            any_subresource.add(resource)
        if resource == "*":
            of_any_resource.add(subresource)
    if "*/*" in resources and len(resources) > 1:
        yield invalid(field, list(resources), "if '*/*' is present, must not specify other resources")
    if "*" in resources and any("/" not in name and name != "*" for name in resources):
        text = "if '*' is present, must not specify other resources without subresources"
        yield invalid(field, list(resources), text)


def _check_resource_names(names: Sequence[str], field: str) -> Iterator[Cause]:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield duplicate(f"{field}[{index}]", name)
        for fault in path_segment_faults(name):
            yield invalid(f"{field}[{index}]", name, fault)


def check_match_policy(policy: str | None, field: str) -> Iterator[Cause]:
    if policy is not None:
        yield from common.check_one_of(policy, _MATCH_POLICIES, field)


def check_conditions(conditions: Sequence[Raw], field: str) -> Iterator[Cause]:
    """Names and number of match conditions; their expressions are compiled by the server."""
    if len(conditions) > MAX_CONDITIONS:
        yield too_many(field, len(conditions), MAX_CONDITIONS)
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        name = condition.get("name") or ""
        if not str(condition.get("expression") or "").strip():
            yield required(f"{field}[{index}].expression")
        if not name:
            yield required(f"{field}[{index}].name")
            continue
        for fault in qualified_name_faults(name):
            yield invalid(f"{field}[{index}].name", name, fault)
        if name in names:
            yield duplicate(f"{field}[{index}].name", name)
        names.add(name)
