"""Label selectors and pod affinity terms in a hashable form that can be compared and counted."""

from collections.abc import Mapping
from typing import NamedTuple

from trimtab.api.kinds.native.pod import PodAffinity, PodAffinityTerm, PodSpec
from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement

Labels = Mapping[str, str]


class HashableSelector(NamedTuple):
    """A label selector that can be a key of a dict."""

    labels: tuple[tuple[str, str], ...] = ()
    requirements: tuple[LabelSelectorRequirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        for key, value in self.labels:
            if labels.get(key) != value:
                return False
        return all(rule.matches(labels) for rule in self.requirements)

    @property
    def is_empty(self) -> bool:
        return not self.labels and not self.requirements


def hashable_selector(
    selector: LabelSelector | None,
    pod_labels: Labels,
    match_label_keys: tuple[str, ...] = (),
    mismatch_label_keys: tuple[str, ...] = (),
) -> HashableSelector | None:
    """Convert a selector; matchLabelKeys and mismatchLabelKeys add requirements with the values of the pod's labels."""
    if selector is None:
        return None
    rules = list(selector.match_expressions)
    rules += [
        LabelSelectorRequirement(key=key, operator="In", values=(pod_labels[key],))
        for key in match_label_keys
        if key in pod_labels
    ]
    rules += [
        LabelSelectorRequirement(key=key, operator="NotIn", values=(pod_labels[key],))
        for key in mismatch_label_keys
        if key in pod_labels
    ]
    return HashableSelector(tuple(sorted(selector.match_labels.items())), tuple(rules))


class AffinityTerm(NamedTuple):
    """The pods that an affinity term selects, and the node label that defines its topology domains."""

    topology_key: str
    selector: HashableSelector | None
    namespaces: frozenset[str]
    namespace_selector: HashableSelector | None

    def matches(self, namespace: str, labels: Labels, namespaces: Mapping[str, Labels]) -> bool:
        if self.selector is None or not self.selector.matches(labels):
            return False
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(namespaces.get(namespace, {}))


def with_resolved_namespaces(term: AffinityTerm, namespaces: Mapping[str, Labels]) -> AffinityTerm:
    """Resolve the namespace selector to names; an empty selector stays, because it selects all namespaces."""
    selector = term.namespace_selector
    if selector is None or selector.is_empty:
        return term
    named = frozenset(name for name, labels in namespaces.items() if selector.matches(labels))
    return term._replace(namespaces=term.namespaces | named, namespace_selector=None)


class WeightedTerm(NamedTuple):
    """An affinity term of a pod: `weight` is 0 for a required one, negative for preferred anti-affinity."""

    term: AffinityTerm
    weight: int
    is_anti_affinity: bool

    @property
    def is_required(self) -> bool:
        return self.weight == 0


def affinity_terms_of(spec: PodSpec, namespace: str, labels: Labels) -> tuple[WeightedTerm, ...]:
    """Return every affinity and anti-affinity term of a pod, in the order of its spec."""
    if spec.affinity is None:
        return ()
    attracting = _terms_of(spec.affinity.pod_affinity, namespace, labels, is_anti_affinity=False)
    return attracting + _terms_of(spec.affinity.pod_anti_affinity, namespace, labels, is_anti_affinity=True)


def _terms_of(
    affinity: PodAffinity | None, namespace: str, labels: Labels, *, is_anti_affinity: bool
) -> tuple[WeightedTerm, ...]:
    if affinity is None:
        return ()
    required = tuple(
        WeightedTerm(_build_term(term, namespace, labels), 0, is_anti_affinity)
        for term in affinity.required_during_scheduling_ignored_during_execution
    )
    sign = -1 if is_anti_affinity else 1
    return required + tuple(
        WeightedTerm(
            _build_term(weighted.pod_affinity_term, namespace, labels), sign * weighted.weight, is_anti_affinity
        )
        for weighted in affinity.preferred_during_scheduling_ignored_during_execution
        if weighted.weight
    )


def _build_term(term: PodAffinityTerm, namespace: str, labels: Labels) -> AffinityTerm:
    named = frozenset(term.namespaces)
    if not named and term.namespace_selector is None:
        named = frozenset((namespace,))
    return AffinityTerm(
        term.topology_key,
        hashable_selector(term.label_selector, labels, term.match_label_keys, term.mismatch_label_keys),
        named,
        hashable_selector(term.namespace_selector, {}),
    )
