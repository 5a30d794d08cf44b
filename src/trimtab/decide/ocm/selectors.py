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


class Rule(NamedTuple):
    """One requirement on a map of strings."""

    key: str
    operator: str
    values: frozenset[str]

    def holds(self, texts: Mapping[str, str]) -> bool:
        present = self.key in texts
        if self.operator == "In":
            return present and texts[self.key] in self.values
        if self.operator == "NotIn":
            return not present or texts[self.key] not in self.values
        return present == (self.operator == "Exists")


class Requirement(NamedTuple):
    """A requirement before validation."""

    key: str
    operator: str
    values: tuple[str, ...]


def claims_of(cluster: ManagedCluster) -> dict[str, str]:
    """The claims of the cluster; of claims with the same name the last counts."""
    return {claim.name: claim.value for claim in cluster.status.cluster_claims}


def by_labels(selector: LabelSelector | None) -> tuple[Rule, ...]:
    if selector is None:
        return ()
    requirements = [Requirement(key, "In", (value,)) for key, value in sorted(selector.match_labels.items())]
    requirements += [Requirement(r.key, r.operator, r.values) for r in selector.match_expressions]
    return _rules(requirements)


def by_claims(selector: ClusterClaimSelector | None) -> tuple[Rule, ...]:
    if selector is None:
        return ()
    return _rules(Requirement(r.key, r.operator, r.values) for r in selector.match_expressions)


def all_hold(rules: Iterable[Rule], texts: Mapping[str, str]) -> bool:
    return all(rule.holds(texts) for rule in rules)


def matcher_of(selector: GroupClusterSelector) -> Matcher:
    """Labels and claims must both match."""
    labels, claims = by_labels(selector.label_selector), by_claims(selector.claim_selector)

    def matches(cluster: ManagedCluster) -> bool:
        return all_hold(labels, cluster.metadata.labels) and (not claims or all_hold(claims, claims_of(cluster)))

    return matches


def members_of(cluster_set: ManagedClusterSet) -> Matcher:
    """Whether a cluster belongs to a set."""
    selector = cluster_set.spec.cluster_selector
    if selector.selector_type in ("", EXCLUSIVE):
        name = cluster_set.name
        return lambda cluster: cluster.metadata.labels.get(SET_LABEL) == name
    if selector.selector_type != "LabelSelector":
        raise Misconfigured("", f"selectorType is not right: {selector.selector_type}")
    if selector.label_selector is None:
        return lambda _: False
    rules = by_labels(selector.label_selector)
    return lambda cluster: all_hold(rules, cluster.metadata.labels)


def _rules(requirements: Iterable[Requirement]) -> tuple[Rule, ...]:
    return tuple(_rule(requirement) for requirement in requirements)


def _rule(requirement: Requirement) -> Rule:
    if requirement.operator not in _OPERATORS:
        raise Misconfigured("", f'"{requirement.operator}" is not a valid label selector operator')
    faults = [*_key_faults(requirement.key), *_number_faults(requirement), *_value_faults(requirement)]
    if faults:
        raise Misconfigured("", faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return Rule(requirement.key, requirement.operator, frozenset(requirement.values))


def _number_faults(requirement: Requirement) -> list[str]:
    if requirement.operator in ("In", "NotIn"):
        if requirement.values:
            return []
        return ["values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"]
    if not requirement.values:
        return []
    given = json.dumps(requirement.values, separators=(",", ":"), ensure_ascii=False)
    return [f"values: Invalid value: {given}: values set must be empty for exists and does not exist"]


def _key_faults(key: str) -> list[str]:
    faults = qualified_name_faults(key)
    return [f"key: Invalid value: {json.dumps(key, ensure_ascii=False)}: {'; '.join(faults)}"] if faults else []


def _value_faults(requirement: Requirement) -> Iterator[str]:
    for position, value in enumerate(requirement.values):
        if faults := label_value_faults(value):
            shown = json.dumps(value, ensure_ascii=False)
            yield f"values[{position}][{requirement.key}]: Invalid value: {shown}: {'; '.join(faults)}"
