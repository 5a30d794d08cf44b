"""Applies override policies to an object before it goes to its cluster, and records which rules were applied."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from trimtab.api.affinity import belongs
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import ClusterAffinity
from trimtab.api.paths import table, tables, text
from trimtab.api.value import Raw
from trimtab.interpret.match import NOT, policy_priority
from trimtab.interpret.overrides.image import BadImage
from trimtab.interpret.overrides.override_patch import BadPatch
from trimtab.interpret.overrides.overriders import CHANGES

_WIRE_ORDER = {
    "plaintext": ("path", "operator", "value"),
    "imageOverrider": ("predicate", "component", "operator", "value"),
    "commandOverrider": ("containerName", "operator", "value"),
    "argsOverrider": ("containerName", "operator", "value"),
    "labelsOverrider": ("operator", "value"),
    "annotationsOverrider": ("operator", "value"),
    "fieldOverrider": ("fieldPath", "json", "yaml"),
}
_FIELD_ORDER = ("subPath", "operator", "value")


class Applied(NamedTuple):
    """An override rule that was applied."""

    namespace: str
    name: str
    overriders: Raw

    @property
    def policy(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OverrideFault(Exception):
    """A rule of an override policy cannot be applied; `applied_before` are the rules that were applied before it."""

    def __init__(self, rule: Applied, cause: str, done: Sequence[Applied] = ()) -> None:
        super().__init__(f"override policy {rule.policy}: {cause}")
        self.rule = rule
        self.cause = cause
        self.done = tuple(done)


class Overridden(NamedTuple):
    """The changed object, and the rules that changed it, in order."""

    obj: Raw
    cluster_wide: tuple[Applied, ...] = ()
    namespaced: tuple[Applied, ...] = ()


def override(obj: Raw, cluster: Raw, policies: Sequence[Raw]) -> Overridden:
    """`obj` for `cluster`: ClusterOverridePolicies first, then the OverridePolicies of its namespace."""
    namespace = text(obj, "metadata", "namespace")
    cluster_wide = _rules([p for p in policies if not _namespace(p)], obj, cluster)
    obj = _ruled(obj, cluster_wide)
    namespaced = _rules([p for p in policies if namespace and _namespace(p) == namespace], obj, cluster)
    obj = _ruled(obj, namespaced, cluster_wide)
    return Overridden(obj, tuple(cluster_wide), tuple(namespaced))


def _namespace(policy: Raw) -> str:
    return text(policy, "metadata", "namespace")


def _rules(policies: Sequence[Raw], obj: Raw, cluster: Raw) -> list[Applied]:
    """The rules for this object in this cluster; the most specific match comes last and so takes precedence."""
    if not policies:
        return []
    priorities = {
        text(policy, "metadata", "name"): policy_priority(tables(policy, "spec", "resourceSelectors"), obj)
        for policy in policies
    }
    target = msgspec.convert(cluster, Cluster, strict=False)
    by_name = {text(policy, "metadata", "name"): policy for policy in policies}
    return [
        Applied(_namespace(by_name[name]), name, table(rule, "overriders"))
        for name in sorted(by_name, key=lambda name: (priorities[name], name))
        if priorities[name] != NOT
        for rule in _override_rules(table(by_name[name], "spec"))
        if _concerns(rule, target)
    ]


def _concerns(rule: Raw, cluster: Cluster) -> bool:
    return belongs(msgspec.convert(rule.get("targetCluster"), ClusterAffinity | None, strict=False))(cluster)


def _override_rules(spec: Raw) -> list[Raw]:
    """The rules in order; the deprecated single rule is used only where there are none."""
    return tables(spec, "overrideRules") or [spec]


def _ruled(obj: Raw, rules: Sequence[Applied], before: Sequence[Applied] = ()) -> Raw:
    for position, rule in enumerate(rules):
        try:
            for field, change in CHANGES.items():
                for overrider in tables(rule.overriders, field):
                    obj = change(obj, overrider)
        except (BadPatch, BadImage) as error:
            raise OverrideFault(rule, str(error), (*before, *rules[:position])) from error
    return obj


def applied_annotation(rules: Sequence[Applied]) -> str:
    """The annotation of a Work about its overrides: JSON in upstream's order of fields."""
    applied = [{"policyName": rule.name, "overriders": _on_the_wire(rule.overriders)} for rule in rules]
    encoded = json.dumps(applied, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return encoded


def _on_the_wire(overriders: Raw) -> Raw:
    return {
        name: [_ordered(entry, order) for entry in tables(overriders, name)]
        for name, order in _WIRE_ORDER.items()
        if overriders.get(name)
    }


def _ordered(entry: Raw, order: Sequence[str]) -> Raw:
    found: Raw = {}
    for key in order:
        if key in ("json", "yaml"):
            if entry.get(key):
                found[key] = [_ordered(inner, _FIELD_ORDER) for inner in tables(entry, key)]
        elif key == "value" and "component" not in order and ("path" in order or "subPath" in order):
            found[key] = entry.get(key)  # a value of any type is written even when it is absent
        elif entry.get(key):
            value = entry[key]
            found[key] = dict(sorted(value.items())) if isinstance(value, dict) else value
    return found
