from pod_builders import HOSTNAME, pod, pod_affinity

from trimtab.api.selectors import LabelSelector
from trimtab.decide.pods.affinity.affinity_terms import (
    AffinityTerm,
    HashableSelector,
    affinity_terms_of,
    hashable_selector,
    with_resolved_namespaces,
)


def test_match_label_keys_take_their_values_from_the_pod() -> None:
    found = hashable_selector(
        LabelSelector(match_labels={"app": "web"}), {"version": "2", "tier": "x"}, ("version",), ("tier",)
    )
    assert found is not None
    assert found.matches({"app": "web", "version": "2", "tier": "y"})
    assert not found.matches({"app": "web", "version": "1", "tier": "y"})
    assert not found.matches({"app": "web", "version": "2", "tier": "x"})
    assert hashable_selector(None, {}) is None


def test_terms_are_required_or_weighted_and_default_to_the_namespace_of_the_pod() -> None:
    soft = pod("p", **pod_affinity(HOSTNAME, weight=3, anti=True))
    (term,) = affinity_terms_of(soft.spec, "shop", soft.metadata.labels)
    assert (term.weight, term.is_anti_affinity, term.is_required) == (-3, True, False)
    assert term.term.matches("shop", {"app": "web"}, {})
    assert not term.term.matches("other", {"app": "web"}, {})


def test_namespace_selector_is_resolved_to_names_and_an_empty_one_selects_all() -> None:
    labels = {"one": {"team": "a"}, "two": {"team": "b"}}
    by_team = AffinityTerm("zone", HashableSelector(), frozenset(), HashableSelector((("team", "a"),)))
    assert with_resolved_namespaces(by_team, labels).namespaces == {"one"}
    everywhere = by_team._replace(namespace_selector=HashableSelector())
    assert with_resolved_namespaces(everywhere, labels) == everywhere
    assert everywhere.matches("three", {}, labels)
