from pod_builders import HOSTNAME, near, pod

from trimtab.api.selectors import LabelSelector
from trimtab.decide.pods.affinity.affinity_terms import Choice, Term, carried, choice, resolved


def test_match_label_keys_take_their_values_from_the_pod() -> None:
    found = choice(LabelSelector(match_labels={"app": "web"}), {"version": "2", "tier": "x"}, ("version",), ("tier",))
    assert found is not None
    assert found.matches({"app": "web", "version": "2", "tier": "y"})
    assert not found.matches({"app": "web", "version": "1", "tier": "y"})
    assert not found.matches({"app": "web", "version": "2", "tier": "x"})
    assert choice(None, {}) is None


def test_terms_are_required_or_weighted_and_default_to_the_namespace_of_the_pod() -> None:
    soft = pod("p", **near(HOSTNAME, weight=3, repels=True))
    (term,) = carried(soft.spec, "shop", soft.metadata.labels)
    assert (term.weight, term.repels, term.required) == (-3, True, False)
    assert term.term.covers("shop", {"app": "web"}, {})
    assert not term.term.covers("other", {"app": "web"}, {})


def test_namespace_selector_is_resolved_to_names_and_an_empty_one_selects_all() -> None:
    labels = {"one": {"team": "a"}, "two": {"team": "b"}}
    by_team = Term("zone", Choice(), frozenset(), Choice((("team", "a"),)))
    assert resolved(by_team, labels).namespaces == {"one"}
    everywhere = by_team._replace(namespace_selector=Choice())
    assert resolved(everywhere, labels) == everywhere
    assert everywhere.covers("three", {}, labels)
