"""The last changes to a copy before it goes to its cluster: what override policies say, and the record of it."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from trimtab.api.affinity import belongs
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import ClusterAffinity
from trimtab.api.value import Raw
from trimtab.interpret.match import NOT, policy_priority
from trimtab.interpret.overrides.image import BadImage
from trimtab.interpret.overrides.override_patch import BadPatch
from trimtab.interpret.overrides.overriders import CHANGES
from trimtab.interpret.paths import table, tables, text

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
    """One override rule that had its say."""

    namespace: str
    name: str
    overriders: Raw

    @property
    def policy(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OverrideFault(Exception):
    """A rule of an override policy cannot be applied; `done` are those that were applied before it."""

    def __init__(self, rule: Applied, cause: str, done: Sequence[Applied] = ()) -> None:
        super().__init__(f"override policy {rule.policy}: {cause}")
        self.rule = rule
        self.cause = cause
        self.done = tuple(done)


class Overridden(NamedTuple):
    """The changed copy, and which rules changed it, in order."""

    obj: Raw
    cluster_wide: tuple[Applied, ...] = ()
    namespaced: tuple[Applied, ...] = ()


def override(obj: Raw, cluster: Raw, policies: Sequence[Raw]) -> Overridden:
    """`obj` for `cluster`: ClusterOverridePolicies first, then the OverridePolicies of its namespace."""
    namespace = text(obj, "metadata", "namespace")
    wide = _rules([p for p in policies if not _namespace(p)], obj, cluster)
    obj = _ruled(obj, wide)
    narrow = _rules([p for p in policies if namespace and _namespace(p) == namespace], obj, cluster)
    obj = _ruled(obj, narrow, wide)
    return Overridden(obj, tuple(wide), tuple(narrow))


def _namespace(policy: Raw) -> str:
    return text(policy, "metadata", "namespace")


def _rules(policies: Sequence[Raw], obj: Raw, cluster: Raw) -> list[Applied]:
    """The rules that concern this object in this cluster; the closest match comes last and so has the last word."""
    if not policies:
        return []
    closeness = {
        text(policy, "metadata", "name"): policy_priority(tables(policy, "spec", "resourceSelectors"), obj)
        for policy in policies
    }
    where = msgspec.convert(cluster, Cluster, strict=False)
    by_name = {text(policy, "metadata", "name"): policy for policy in policies}
    return [
        Applied(_namespace(by_name[name]), name, table(rule, "overriders"))
        for name in sorted(by_name, key=lambda name: (closeness[name], name))
        if closeness[name] != NOT
        for rule in _override_rules(table(by_name[name], "spec"))
        if _concerns(rule, where)
    ]


def _concerns(rule: Raw, cluster: Cluster) -> bool:
    return belongs(msgspec.convert(rule.get("targetCluster"), ClusterAffinity | None, strict=False))(cluster)


def _override_rules(spec: Raw) -> list[Raw]:
    """The rules in order; the old single rule counts only where there are none."""
    return tables(spec, "overrideRules") or [spec]


def _ruled(obj: Raw, rules: Sequence[Applied], before: Sequence[Applied] = ()) -> Raw:
    for position, rule in enumerate(rules):
        try:
            for field, change in CHANGES.items():
                for overrider in tables(rule.overriders, field):
                    obj = change(obj, overrider)
        except (BadPatch, BadImage) as bad:
            raise OverrideFault(rule, str(bad), (*before, *rules[:position])) from bad
    return obj


def applied_annotation(rules: Sequence[Applied]) -> str:
    """The JSON that a Work carries about its overrides, in upstream's order of fields."""
    listed = [{"policyName": rule.name, "overriders": _on_the_wire(rule.overriders)} for rule in rules]
    plain = json.dumps(listed, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    return plain


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
            found[key] = entry.get(key)  # a value of any kind is written even when there is none
        elif entry.get(key):
            value = entry[key]
            found[key] = dict(sorted(value.items())) if isinstance(value, dict) else value
    return found
