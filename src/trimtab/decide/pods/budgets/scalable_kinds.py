"""Custom kinds with a scale subresource: where their CRDs keep replicas and selector."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from trimtab.api.jsonpath import find_values_or_empty
from trimtab.api.kind import ScalePaths
from trimtab.api.selectors import InvalidSelector, LabelSelector, LabelSelectorRequirement, parse_selector
from trimtab.api.value import OwnerReference, Raw

CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
BUILTIN_GROUPS = ("apps", "batch", "v1")
"""The API groups of built-in owners."""
OBJECT_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
"""Operators of a label selector object; the text form has two more."""


def is_custom_kind(owner: OwnerReference) -> bool:
    """Return whether the owner is not of a built-in kind."""
    return owner.api_version.partition("/")[0] not in BUILTIN_GROUPS


class ScalableKind(NamedTuple):
    """A kind with the version in which its objects are read."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    scale: ScalePaths

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    def is_kind_of(self, owner: OwnerReference) -> bool:
        """Return whether an owner is of this kind, in any version."""
        return owner.kind == self.kind and owner.api_version.partition("/")[0] == self.group

    def replicas(self, obj: Raw) -> int | None:
        """Return the desired replicas; None while the field is not set."""
        found = _value_at(obj, self.scale.spec_path)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def selector(self, obj: Raw) -> LabelSelector | None:
        """Return the selector of its pods; None while it is not set or invalid."""
        text = _value_at(obj, self.scale.selector_path) if self.scale.selector_path else None
        if not isinstance(text, str) or not text.strip():
            return None
        try:
            rules = parse_selector(text).rules
        except InvalidSelector:
            return None
        return _label_selector(rules) if all(rule.operator in OBJECT_OPERATORS for rule in rules) else None


def scalable_kinds_of(definitions: Iterable[Raw]) -> Iterator[ScalableKind]:
    """Yield the scalable kinds, one version each: the stored one, otherwise the first that is served."""
    for definition in definitions:
        spec = definition.get("spec") or {}
        versions = [one for one in spec.get("versions") or () if one.get("served") and scale_of(one) is not None]
        for version in sorted(versions, key=lambda one: not one.get("storage"))[:1]:
            names, scale = spec["names"], scale_of(version) or ScalePaths()
            namespaced = spec.get("scope") == "Namespaced"
            yield ScalableKind(spec["group"], version["name"], names["kind"], names["plural"], namespaced, scale)


def scale_of(version: Raw) -> ScalePaths | None:
    """Return the scale paths of one version of a CRD; None without the scale subresource."""
    scale = (version.get("subresources") or {}).get("scale")
    if not scale:
        return None
    return ScalePaths(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", ""))


def _label_selector(rules: tuple[LabelSelectorRequirement, ...]) -> LabelSelector:
    """Convert requirements; one with a single value becomes a label, as people write it."""
    plain = {rule.key: rule.values[0] for rule in rules if rule.operator == "In" and len(rule.values) == 1}
    rest = tuple(rule for rule in rules if plain.get(rule.key) not in rule.values or len(rule.values) != 1)
    return LabelSelector(match_labels=plain, match_expressions=rest)


def _value_at(obj: Raw, path: str) -> Any:
    return next(iter(find_values_or_empty(obj, path)), None)
