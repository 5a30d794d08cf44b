import msgspec
import pytest

from trimtab.api.kinds.policy import ResourceSelector
from trimtab.api.value import Raw
from trimtab.interpret.match import (
    MATCH_ANY,
    MATCH_BY_LABEL,
    MATCH_BY_NAME,
    NO_MATCH,
    policy_priority,
    selector_priority,
)

OBJECT: Raw = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "ns", "labels": {"app": "web"}},
}


def selector(**fields: object) -> ResourceSelector:
    return msgspec.convert({"apiVersion": "apps/v1", "kind": "Deployment", **fields}, ResourceSelector)


@pytest.mark.parametrize(
    ("entry", "priority"),
    [
        (selector(), MATCH_ANY),
        (selector(name="web"), MATCH_BY_NAME),
        (selector(name="web", labelSelector={"matchLabels": {"app": "other"}}), MATCH_BY_NAME),
        (selector(name="other"), NO_MATCH),
        (selector(namespace="ns"), MATCH_ANY),
        (selector(namespace="other", name="web"), NO_MATCH),
        (selector(labelSelector={"matchLabels": {"app": "web"}}), MATCH_BY_LABEL),
        (selector(labelSelector={"matchLabels": {"app": "other"}}), NO_MATCH),
        (selector(labelSelector={"matchExpressions": [{"key": "app", "operator": "Unknown"}]}), NO_MATCH),
        (selector(kind="StatefulSet"), NO_MATCH),
    ],
)
def test_more_specific_selectors_have_higher_priority(entry: ResourceSelector, priority: int) -> None:
    assert selector_priority(entry, OBJECT) == priority


def test_policy_has_the_priority_of_its_most_specific_selector() -> None:
    assert policy_priority([selector(), selector(name="web"), selector(name="other")], OBJECT) == MATCH_BY_NAME
    assert policy_priority([], OBJECT) == MATCH_ANY
