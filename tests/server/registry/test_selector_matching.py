"""Label and field selectors of requests."""

import pytest

from trimtab.api.kind import Kind
from trimtab.api.value import Object
from trimtab.errors import BadRequest
from trimtab.server.registry.selector_matching import MATCH_EVERYTHING, parse_selectors
from trimtab.server.resources import ServedResource

POD = b'{"metadata":{"name":"web","labels":{"app":"web"}},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}'


def pods() -> ServedResource:
    return ServedResource(
        Kind(Object, group="", version="v1", name="Pod", plural="pods", custom=False), "v1", schema=dict
    )


@pytest.mark.parametrize(
    ("labels", "fields", "matches"),
    [
        ("app=web", "", True),
        ("app in (api)", "", False),
        ("", "spec.nodeName=n", True),
        ("", "spec.nodeName!=n", False),
        ("", "status.phase==Running,spec.hostNetwork=false", True),
        ("app=web", "metadata.name=other", False),
    ],
)
def test_both_selectors_must_match(labels: str, fields: str, matches: bool) -> None:
    assert parse_selectors(pods(), labels, fields).matches(POD) == matches


def test_name_of_a_field_selector_is_known() -> None:
    assert parse_selectors(pods(), "", "metadata.name=web").single_name == "web"
    assert parse_selectors(pods(), "", "metadata.name!=web").single_name == ""
    assert parse_selectors(pods(), "", "") is MATCH_EVERYTHING


@pytest.mark.parametrize(
    ("labels", "fields", "message"),
    [
        ("", "spec.image=x", "field label not supported: spec.image"),
        ("", "nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        ("app in web", "", "unable to parse requirement: found 'web', expected: '('"),
    ],
)
def test_invalid_selectors_are_refused_in_the_words_of_kubernetes(labels: str, fields: str, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        parse_selectors(pods(), labels, fields)
    assert refusal.value.message == message
