"""Matching of clusters against a ClusterAffinity, shared by filters, weights, overflow groups and overrides."""

from collections.abc import Callable
from typing import TypeAlias

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import ClusterAffinity, FieldSelectorRequirement
from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement

ClusterMatcher: TypeAlias = Callable[[Cluster], bool]

_WITH_VALUES = {"In", "NotIn"}
_WITHOUT_VALUES = {"Exists", "DoesNotExist"}


def affinity_matcher(affinity: ClusterAffinity | None) -> ClusterMatcher:
    """Returns a function that matches one cluster; whatever does not depend on the cluster is computed once, here."""
    if affinity is None:
        return lambda _: True
    excluded, named = frozenset(affinity.exclude), frozenset(affinity.cluster_names)
    selector = affinity.label_selector
    if selector is not None and not _is_valid_selector(selector):
        return lambda _: False
    rules = affinity.field_selector.match_expressions if affinity.field_selector is not None else ()
    field_matchers = [_field_matcher(rule) for rule in rules]

    def matches(cluster: Cluster) -> bool:
        name = cluster.metadata.name
        return (
            name not in excluded
            and (not named or name in named)
            and (selector is None or selector.matches(cluster.metadata.labels))
            and all(field_matches(cluster) for field_matches in field_matchers)
        )

    return matches


def _is_valid_selector(selector: LabelSelector) -> bool:
    """Whether Kubernetes would accept the selector; an invalid one matches nothing."""
    return all(
        bool(rule.values) if rule.operator in _WITH_VALUES else rule.operator in _WITHOUT_VALUES and not rule.values
        for rule in selector.match_expressions
    )


def _field_matcher(rule: FieldSelectorRequirement) -> ClusterMatcher:
    if rule.key == "zone":
        return lambda cluster: _zones_match(rule, cluster.spec.zones)
    requirement = LabelSelectorRequirement(key=rule.key, operator=rule.operator, values=rule.values)
    if not _is_valid_selector(LabelSelector(match_expressions=(requirement,))):
        return lambda _: False

    def matches(cluster: Cluster) -> bool:
        spec = cluster.spec
        fields = {"provider": spec.provider, "region": spec.region}
        return requirement.matches({key: value for key, value in fields.items() if value})

    return matches


def _zones_match(rule: FieldSelectorRequirement, zones: tuple[str, ...]) -> bool:
    """A cluster may have several zones: In needs any of them to be listed, NotIn none of them."""
    listed = any(zone in rule.values for zone in zones)
    return {"In": listed, "NotIn": not listed, "Exists": bool(zones), "DoesNotExist": not zones}.get(
        rule.operator, False
    )
