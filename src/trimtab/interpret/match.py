"""Which objects a policy means, and which clusters."""

from typing import Any

import msgspec

from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement
from trimtab.api.value import Raw
from trimtab.interpret.places import table, tables, text

NOT, ALL, BY_LABEL, BY_NAME = range(4)


def _selector(raw: Any) -> LabelSelector:
    return msgspec.convert(raw, LabelSelector, strict=False)


def selector_priority(selector: Raw, obj: Raw) -> int:
    """How closely one `resourceSelectors` entry means `obj`: 0 not at all, 1 as any, 2 by label, 3 by name."""
    if selector.get("apiVersion") != obj.get("apiVersion") or selector.get("kind") != obj.get("kind"):
        return NOT
    if (namespace := text(selector, "namespace")) and namespace != text(obj, "metadata", "namespace"):
        return NOT
    if name := text(selector, "name"):
        return BY_NAME if name == text(obj, "metadata", "name") else NOT
    if (labels := selector.get("labelSelector")) is None:
        return ALL
    return BY_LABEL if _selector(labels).matches(table(obj, "metadata", "labels")) else NOT


def policy_priority(selectors: list[Raw], obj: Raw) -> int:
    """The closest of several entries; no entries at all mean every object."""
    return max((selector_priority(selector, obj) for selector in selectors), default=ALL)


def cluster_matches(affinity: Raw | None, cluster: Raw) -> bool:
    """Whether a ClusterAffinity (None: any) admits `cluster`."""
    if affinity is None:
        return True
    name = text(cluster, "metadata", "name")
    if name in affinity.get("exclude", ()):
        return False
    labels = affinity.get("labelSelector")
    if labels is not None and not _selector(labels).matches(table(cluster, "metadata", "labels")):
        return False
    if not all(_field_matches(rule, table(cluster, "spec")) for rule in _field_rules(affinity)):
        return False
    return name in (affinity.get("clusterNames") or (name,))


def _field_rules(affinity: Raw) -> list[Raw]:
    return tables(affinity, "fieldSelector", "matchExpressions")


def _field_matches(rule: Raw, spec: Raw) -> bool:
    if rule.get("key") == "zone":
        return _zone_matches(rule, spec)
    fields = {key: spec[key] for key in ("provider", "region") if spec.get(key)}
    return msgspec.convert(rule, LabelSelectorRequirement, strict=False).matches(fields)


def _zone_matches(rule: Raw, spec: Raw) -> bool:
    """A cluster may lie in several zones: In means any of them, NotIn none of them."""
    zones = set(spec.get("zones") or ())
    overlap = bool(zones & set(rule.get("values") or ()))
    return {"In": overlap, "NotIn": not overlap, "Exists": bool(zones), "DoesNotExist": not zones}.get(
        str(rule.get("operator")), False
    )
