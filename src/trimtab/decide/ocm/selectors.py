"""Compiles label and claim selectors to predicates on clusters, or rejects them with the messages of Kubernetes."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterSet
from trimtab.api.kinds.ocm_placement import ClusterClaimSelector, GroupClusterSelector
from trimtab.api.names import label_value_faults, qualified_name_faults
from trimtab.api.selectors import LabelSelector
from trimtab.decide.ocm.decision import Misconfigured

SET_LABEL = "cluster.open-cluster-management.io/clusterset"
EXCLUSIVE = "ExclusiveClusterSetLabel"

Matcher: TypeAlias = Callable[[ManagedCluster], bool]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class SelectorRule(NamedTuple):
    """One requirement on a map of strings."""

    key: str
    operator: str
    values: frozenset[str]

    def matches(self, texts: Mapping[str, str]) -> bool:
        present = self.key in texts
        if self.operator == "In":
            return present and texts[self.key] in self.values
        if self.operator == "NotIn":
            return not present or texts[self.key] not in self.values
        return present == (self.operator == "Exists")


class UncheckedRequirement(NamedTuple):
    """A requirement before validation."""

    key: str
    operator: str
    values: tuple[str, ...]


def claims_of(cluster: ManagedCluster) -> dict[str, str]:
    """The claims of the cluster; of claims with the same name the last counts."""
    return {claim.name: claim.value for claim in cluster.status.cluster_claims}


def label_rules(selector: LabelSelector | None) -> tuple[SelectorRule, ...]:
    if selector is None:
        return ()
    requirements = [UncheckedRequirement(key, "In", (value,)) for key, value in sorted(selector.match_labels.items())]
    requirements += [UncheckedRequirement(r.key, r.operator, r.values) for r in selector.match_expressions]
    return _checked_rules(requirements)


def claim_rules(selector: ClusterClaimSelector | None) -> tuple[SelectorRule, ...]:
    if selector is None:
        return ()
    return _checked_rules(UncheckedRequirement(r.key, r.operator, r.values) for r in selector.match_expressions)


def all_match(rules: Iterable[SelectorRule], texts: Mapping[str, str]) -> bool:
    return all(rule.matches(texts) for rule in rules)


def matcher_of(selector: GroupClusterSelector) -> Matcher:
    """Labels and claims must both match."""
    labels, claims = label_rules(selector.label_selector), claim_rules(selector.claim_selector)

    def matches(cluster: ManagedCluster) -> bool:
        return all_match(labels, cluster.metadata.labels) and (not claims or all_match(claims, claims_of(cluster)))

    return matches


def set_matcher(cluster_set: ManagedClusterSet) -> Matcher:
    """Whether a cluster belongs to a set."""
    selector = cluster_set.spec.cluster_selector
    if selector.selector_type in ("", EXCLUSIVE):
        name = cluster_set.name
        return lambda cluster: cluster.metadata.labels.get(SET_LABEL) == name
    if selector.selector_type != "LabelSelector":
        raise Misconfigured("", f"selectorType is not right: {selector.selector_type}")
    if selector.label_selector is None:
        return lambda _: False
    rules = label_rules(selector.label_selector)
    return lambda cluster: all_match(rules, cluster.metadata.labels)


def _checked_rules(requirements: Iterable[UncheckedRequirement]) -> tuple[SelectorRule, ...]:
    return tuple(_checked_rule(requirement) for requirement in requirements)


def _checked_rule(requirement: UncheckedRequirement) -> SelectorRule:
    if requirement.operator not in _OPERATORS:
        raise Misconfigured("", f'"{requirement.operator}" is not a valid label selector operator')
    faults = [*_key_errors(requirement.key), *_count_errors(requirement), *_value_errors(requirement)]
    if faults:
        raise Misconfigured("", faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return SelectorRule(requirement.key, requirement.operator, frozenset(requirement.values))


def _count_errors(requirement: UncheckedRequirement) -> list[str]:
    if requirement.operator in ("In", "NotIn"):
        if requirement.values:
            return []
        return ["values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"]
    if not requirement.values:
        return []
    given = json.dumps(requirement.values, separators=(",", ":"), ensure_ascii=False)
    return [f"values: Invalid value: {given}: values set must be empty for exists and does not exist"]


def _key_errors(key: str) -> list[str]:
    faults = qualified_name_faults(key)
    return [f"key: Invalid value: {json.dumps(key, ensure_ascii=False)}: {'; '.join(faults)}"] if faults else []


def _value_errors(requirement: UncheckedRequirement) -> Iterator[str]:
    for position, value in enumerate(requirement.values):
        if faults := label_value_faults(value):
            shown = json.dumps(value, ensure_ascii=False)
            yield f"values[{position}][{requirement.key}]: Invalid value: {shown}: {'; '.join(faults)}"
