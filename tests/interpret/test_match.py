import pytest

from trimtab.api.value import Raw
from trimtab.interpret.match import ALL, BY_LABEL, BY_NAME, NOT, policy_priority, selector_priority

OBJECT: Raw = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "ns", "labels": {"app": "web"}},
}


def selector(**fields: object) -> Raw:
    return {"apiVersion": "apps/v1", "kind": "Deployment", **fields}


@pytest.mark.parametrize(
    ("entry", "priority"),
    [
        (selector(), ALL),
        (selector(name="web"), BY_NAME),
        (selector(name="web", labelSelector={"matchLabels": {"app": "other"}}), BY_NAME),
        (selector(name="other"), NOT),
        (selector(namespace="ns"), ALL),
        (selector(namespace="other", name="web"), NOT),
        (selector(labelSelector={"matchLabels": {"app": "web"}}), BY_LABEL),
        (selector(labelSelector={"matchLabels": {"app": "other"}}), NOT),
        (selector(kind="StatefulSet"), NOT),
    ],
)
def test_more_specific_selectors_have_higher_priority(entry: Raw, priority: int) -> None:
    assert selector_priority(entry, OBJECT) == priority


def test_policy_has_the_priority_of_its_most_specific_selector() -> None:
    assert policy_priority([selector(), selector(name="web"), selector(name="other")], OBJECT) == BY_NAME
    assert policy_priority([], OBJECT) == ALL
