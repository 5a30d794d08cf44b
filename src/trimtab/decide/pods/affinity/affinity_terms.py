"""Label selectors and pod affinity terms in a hashable form that can be compared and counted."""

from collections.abc import Mapping
from typing import NamedTuple

from trimtab.api.kinds.native.pod import PodAffinity, PodAffinityTerm, PodSpec
from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement

Labels = Mapping[str, str]


class Choice(NamedTuple):
    """A label selector that can be a key of a dict."""

    labels: tuple[tuple[str, str], ...] = ()
    rules: tuple[LabelSelectorRequirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        for key, value in self.labels:
            if labels.get(key) != value:
                return False
        return all(rule.matches(labels) for rule in self.rules)

    @property
    def empty(self) -> bool:
        return not self.labels and not self.rules


def choice(
    selector: LabelSelector | None, own: Labels, same: tuple[str, ...] = (), different: tuple[str, ...] = ()
) -> Choice | None:
    """Convert a selector; matchLabelKeys and mismatchLabelKeys add requirements with the values of the pod's labels."""
    if selector is None:
        return None
    rules = list(selector.match_expressions)
    rules += [LabelSelectorRequirement(key=key, operator="In", values=(own[key],)) for key in same if key in own]
    rules += [
        LabelSelectorRequirement(key=key, operator="NotIn", values=(own[key],)) for key in different if key in own
    ]
    return Choice(tuple(sorted(selector.match_labels.items())), tuple(rules))


class Term(NamedTuple):
    """The pods that an affinity term selects, and the node label that defines its topology domains."""

    topology_key: str
    selector: Choice | None
    namespaces: frozenset[str]
    namespace_selector: Choice | None

    def covers(self, namespace: str, labels: Labels, namespaces: Mapping[str, Labels]) -> bool:
        if self.selector is None or not self.selector.matches(labels):
            return False
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(namespaces.get(namespace, {}))


def resolved(term: Term, namespaces: Mapping[str, Labels]) -> Term:
    """Resolve the namespace selector to names; an empty selector stays, because it selects all namespaces."""
    selector = term.namespace_selector
    if selector is None or selector.empty:
        return term
    named = frozenset(name for name, labels in namespaces.items() if selector.matches(labels))
    return term._replace(namespaces=term.namespaces | named, namespace_selector=None)


class Carried(NamedTuple):
    """An affinity term of a pod: `weight` is 0 for a required one, negative for preferred anti-affinity."""

    term: Term
    weight: int
    repels: bool

    @property
    def required(self) -> bool:
        return self.weight == 0


def carried(spec: PodSpec, namespace: str, labels: Labels) -> tuple[Carried, ...]:
    """Return every affinity and anti-affinity term of a pod, in the order of its spec."""
    if spec.affinity is None:
        return ()
    attracting = _side(spec.affinity.pod_affinity, namespace, labels, repels=False)
    return attracting + _side(spec.affinity.pod_anti_affinity, namespace, labels, repels=True)


def _side(affinity: PodAffinity | None, namespace: str, labels: Labels, *, repels: bool) -> tuple[Carried, ...]:
    if affinity is None:
        return ()
    required = tuple(
        Carried(_written(term, namespace, labels), 0, repels)
        for term in affinity.required_during_scheduling_ignored_during_execution
    )
    sign = -1 if repels else 1
    return required + tuple(
        Carried(_written(weighted.pod_affinity_term, namespace, labels), sign * weighted.weight, repels)
        for weighted in affinity.preferred_during_scheduling_ignored_during_execution
        if weighted.weight
    )


def _written(term: PodAffinityTerm, namespace: str, labels: Labels) -> Term:
    named = frozenset(term.namespaces)
    if not named and term.namespace_selector is None:
        named = frozenset((namespace,))
    return Term(
        term.topology_key,
        choice(term.label_selector, labels, term.match_label_keys, term.mismatch_label_keys),
        named,
        choice(term.namespace_selector, {}),
    )
