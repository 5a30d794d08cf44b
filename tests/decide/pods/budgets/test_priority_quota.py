from typing import Any

import msgspec
import pytest
from pod_builders import pod

from trimtab.api.kinds.native.quota import ResourceQuota
from trimtab.decide.pods.budgets.priority_quota import guaranteed_amounts, quota_applies_to, quota_excess, usage_of


def quota(hard: dict[str, str], scopes: tuple[str, ...] = (), **rule: Any) -> ResourceQuota:
    selector = {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", **rule}]}} if rule else {}
    spec = {"hard": hard, "scopes": scopes, **selector}
    return msgspec.convert({"metadata": {"name": "q"}, "spec": spec}, ResourceQuota)


HIGH = pod("p", cpu="1", priorityClassName="high")


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["high"], True),
        ("In", ["low"], False),
        ("NotIn", ["low"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ],
)
def test_scope_selector_matches_the_priority_class(operator: str, values: list[str], expected: bool) -> None:
    assert quota_applies_to(quota({}, operator=operator, values=values), HIGH) == expected


def test_every_scope_must_match() -> None:
    assert quota_applies_to(quota({}, ("NotBestEffort", "NotTerminating")), HIGH)
    assert not quota_applies_to(quota({}, ("NotBestEffort", "Terminating")), HIGH)


def test_excess_is_reported_in_the_words_of_kubernetes() -> None:
    limited = quota({"requests.cpu": "1500m", "pods": "5"})
    assert quota_excess(limited, HIGH, []) is None
    found = quota_excess(limited, HIGH, [HIGH, pod("done", cpu="1", status={"phase": "Succeeded"})])
    assert found is not None
    assert (
        found.message
        == "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1500m"
    )


def test_limits_count_separately_from_requests() -> None:
    limited = pod("p", containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}])
    assert usage_of([limited], ["cpu", "limits.cpu", "pods"]) == {"cpu": 1000, "limits.cpu": 2000, "pods": 1}


def test_guarantees_are_summed_over_quotas_of_the_priority() -> None:
    quotas = [
        quota({"requests.cpu": "2"}, operator="In", values=["high"]),
        quota({"cpu": "1"}, operator="In", values=["high", "low"]),
    ]
    assert guaranteed_amounts(quotas, "high") == {"cpu": 3000}
    assert guaranteed_amounts(quotas, "low") == {"cpu": 1000}
