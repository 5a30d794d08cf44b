"""Applies override policies to an object before it goes to its cluster, and records which rules were applied."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from trimtab.api.affinity import affinity_matcher
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import ClusterAffinity
from trimtab.api.paths import object_at, objects_at, string_at
from trimtab.api.value import Raw
from trimtab.interpret.match import NO_MATCH, policy_priority, selectors_of
from trimtab.interpret.overrides.image import InvalidImage
from trimtab.interpret.overrides.override_patch import InvalidPatch
from trimtab.interpret.overrides.overriders import OVERRIDERS

_FIELD_ORDER_BY_OVERRIDER = {
    "plaintext": ("path", "operator", "value"),
    "imageOverrider": ("predicate", "component", "operator", "value"),
    "commandOverrider": ("containerName", "operator", "value"),
    "argsOverrider": ("containerName", "operator", "value"),
    "labelsOverrider": ("operator", "value"),
    "annotationsOverrider": ("operator", "value"),
    "fieldOverrider": ("fieldPath", "json", "yaml"),
}
_IDENTITY_PATHS = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))
_SUB_PATH_FIELD_ORDER = ("subPath", "operator", "value")


class AppliedRule(NamedTuple):
    """An override rule that was applied."""

    namespace: str
    name: str
    overriders: Raw

    @property
    def policy(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OverrideError(Exception):
    """A rule of an override policy cannot be applied; `applied_before` are the rules that were applied before it."""

    def __init__(self, rule: AppliedRule, cause: str, applied_before: Sequence[AppliedRule] = ()) -> None:
        super().__init__(f"override policy {rule.policy}: {cause}")
        self.rule = rule
        self.cause = cause
        self.applied_before = tuple(applied_before)


class OverrideResult(NamedTuple):
    """The changed object, and the rules that changed it, in order."""

    obj: Raw
    cluster_wide: tuple[AppliedRule, ...] = ()
    namespaced: tuple[AppliedRule, ...] = ()


def apply_overrides(obj: Raw, cluster: Raw, policies: Sequence[Raw], *, keep_identity: bool = False) -> OverrideResult:
    """`obj` for `cluster`: ClusterOverridePolicies first, then the OverridePolicies of its namespace.

    With `keep_identity` the policies of a namespace may not make another object of it: the control plane, which has all
    rights in a member, would write outside of the namespace for somebody who may write inside only.
    """
    namespace = string_at(obj, "metadata", "namespace")
    cluster_wide = _matching_rules([p for p in policies if not _namespace(p)], obj, cluster)
    obj = _apply_rules(obj, cluster_wide)
    namespaced = _matching_rules([p for p in policies if namespace and _namespace(p) == namespace], obj, cluster)
    obj = _apply_rules(obj, namespaced, cluster_wide, keep_identity=keep_identity)
    return OverrideResult(obj, tuple(cluster_wide), tuple(namespaced))


def _namespace(policy: Raw) -> str:
    return string_at(policy, "metadata", "namespace")


def _matching_rules(policies: Sequence[Raw], obj: Raw, cluster: Raw) -> list[AppliedRule]:
    """The rules for this object in this cluster; the most specific match comes last and so takes precedence."""
    if not policies:
        return []
    priorities = {
        string_at(policy, "metadata", "name"): policy_priority(selectors_of(policy), obj) for policy in policies
    }
    target = msgspec.convert(cluster, Cluster, strict=False)
    by_name = {string_at(policy, "metadata", "name"): policy for policy in policies}
    return [
        AppliedRule(_namespace(by_name[name]), name, object_at(rule, "overriders"))
        for name in sorted(by_name, key=lambda name: (priorities[name], name))
        if priorities[name] != NO_MATCH
        for rule in _override_rules(object_at(by_name[name], "spec"))
        if _targets_cluster(rule, target)
    ]


def _targets_cluster(rule: Raw, cluster: Cluster) -> bool:
    return affinity_matcher(msgspec.convert(rule.get("targetCluster"), ClusterAffinity | None, strict=False))(cluster)


def _override_rules(spec: Raw) -> list[Raw]:
    """The rules in order; the deprecated single rule is used only where there are none."""
    return objects_at(spec, "overrideRules") or [spec]


def _identity(obj: Raw) -> tuple[str, ...]:
    return (*(string_at(obj, *path) for path in _IDENTITY_PATHS),)


def _apply_rules(
    obj: Raw, rules: Sequence[AppliedRule], before: Sequence[AppliedRule] = (), *, keep_identity: bool = False
) -> Raw:
    identity = _identity(obj)
    for position, rule in enumerate(rules):
        try:
            for field, change in OVERRIDERS.items():
                for overrider in objects_at(rule.overriders, field):
                    obj = change(obj, overrider)
        except (InvalidPatch, InvalidImage) as error:
            raise OverrideError(rule, str(error), (*before, *rules[:position])) from error
        if keep_identity and _identity(obj) != identity:
            why = "an OverridePolicy may not change the apiVersion, kind, name or namespace of an object"
            raise OverrideError(rule, why, (*before, *rules[:position]))
    return obj


def applied_overrides_annotation(rules: Sequence[AppliedRule]) -> str:
    """The annotation of a Work about its overrides: JSON in upstream's order of fields."""
    applied = [{"policyName": rule.name, "overriders": _in_wire_order(rule.overriders)} for rule in rules]
    encoded = json.dumps(applied, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return encoded


def _in_wire_order(overriders: Raw) -> Raw:
    return {
        name: [_sort_fields(entry, order) for entry in objects_at(overriders, name)]
        for name, order in _FIELD_ORDER_BY_OVERRIDER.items()
        if overriders.get(name)
    }


def _sort_fields(entry: Raw, order: Sequence[str]) -> Raw:
    found: Raw = {}
    for key in order:
        if key in ("json", "yaml"):
            if entry.get(key):
                found[key] = [_sort_fields(inner, _SUB_PATH_FIELD_ORDER) for inner in objects_at(entry, key)]
        elif key == "value" and "component" not in order and ("path" in order or "subPath" in order):
            found[key] = entry.get(key)  # a value of any type is written even when it is absent
        elif entry.get(key):
            value = entry[key]
            found[key] = dict(sorted(value.items())) if isinstance(value, dict) else value
    return found
