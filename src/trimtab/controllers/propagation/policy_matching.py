"""Finds the policy of a template, and the templates of a policy."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from trimtab.api.kinds.override_policy import ClusterOverridePolicy, OverridePolicy
from trimtab.api.kinds.policy import ClusterPropagationPolicy, Policy, PropagationPolicy
from trimtab.api.value import Raw
from trimtab.controllers.contract import View
from trimtab.interpret.match import NO_MATCH, policy_priority, selector_priority

MATCH_POLICY = "MatchPolicy"
"""The step in which the best policy of a template is searched."""
MAX_COMPARISONS = 2000
"""Selectors times templates that are compared when a policy changes; beyond it every template looks for its policy itself."""
P = TypeVar("P", bound=Policy)
Place = tuple[str, str, str | None]
"""API version, kind and namespace of templates; without a namespace all of them."""


def specificity_of(policy: Any, template: Raw) -> int:
    """How specifically a policy selects a template; 0 not at all. Most of its selectors are for other objects."""
    selectors = policy.spec.resource_selectors
    version, kind, name = template.get("apiVersion"), template.get("kind"), template["metadata"].get("name")
    candidates = [
        selector
        for selector in selectors
        if selector.kind == kind and selector.api_version == version and selector.name in ("", name)
    ]
    return policy_priority(candidates, template) if candidates or not selectors else NO_MATCH


def places_of(policy: Policy) -> list[Place]:
    """Where the templates of each selector are; many selectors may name one place."""
    return [
        (selector.api_version, selector.kind, policy.namespace or selector.namespace or None)
        for selector in policy.spec.resource_selectors
    ]


def selected_templates(policy: Policy, view: View) -> Iterator[Raw]:
    """The templates that a policy selects; all of a place where comparing them with its selectors would take long."""
    places = places_of(policy)
    raws = {place: view.raws(*place) for place in dict.fromkeys(places)}
    by_name = {place: _by_name(found) for place, found in raws.items()}
    unnamed = Counter(
        place for place, selector in zip(places, policy.spec.resource_selectors, strict=True) if not selector.name
    )
    wide = {place for place, count in unnamed.items() if count * len(raws[place]) > MAX_COMPARISONS}
    for place in wide:
        yield from raws[place]
    for place, selector in zip(places, policy.spec.resource_selectors, strict=True):
        if place not in wide:
            candidates = by_name[place].get(selector.name, ()) if selector.name else raws[place]
            yield from (raw for raw in candidates if selector_priority(selector, raw))


def look_for_policy(template: Raw, view: View) -> Policy | None:
    """The best matching policy; the search is reported to an observer, if there is one."""
    if (observer := view.step_observer) is None:
        return best_policy(template, view)
    with observer.measure(MATCH_POLICY):
        return best_policy(template, view)


def best_policy(template: Raw, view: View) -> Policy | None:
    """The best matching policy: namespaced before cluster-wide, then by priority, selector specificity and name."""
    namespace = template["metadata"].get("namespace", "")
    own = best_match(view.all(PropagationPolicy, namespace), template) if namespace else None
    return own or best_match(view.all(ClusterPropagationPolicy), template)


def best_match(policies: Iterable[P], template: Raw) -> P | None:
    ranked = []
    for policy in policies:
        specificity = specificity_of(policy, template)
        if specificity and policy.metadata.deletion_timestamp is None:
            ranked.append((-(policy.spec.priority or 0), -specificity, policy.name, policy))
    return min(ranked, key=lambda entry: entry[:3])[3] if ranked else None


def _by_name(templates: Iterable[Raw]) -> dict[str, list[Raw]]:
    found: dict[str, list[Raw]] = {}
    for template in templates:
        found.setdefault(template["metadata"]["name"], []).append(template)
    return found


def missing_overrides(policy: Policy, view: View) -> list[str]:
    def exists(name: str) -> bool:
        if isinstance(policy, PropagationPolicy):
            return view.get(OverridePolicy, policy.namespace, name) is not None
        return view.get(ClusterOverridePolicy, "", name) is not None

    return [name for name in policy.spec.dependent_overrides if not exists(name)]
