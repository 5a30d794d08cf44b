from typing import Any

import msgspec
import pytest
from pod_builders import pod

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.quota import ResourceQuota, ResourceQuotaSpec
from trimtab.decide.pods.budgets.priority_quota import (
    guaranteed_amounts,
    hard_limits_of,
    missing_amounts,
    quota_applies_to,
    quota_excess,
    usage_of,
)


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


def test_pods_use_every_limit_on_compute_resources() -> None:
    hard = {"requests.example.com/dongle": "3", "ephemeral-storage": "1Gi", "limits.memory": "2Gi", "services": "1"}
    quota = ResourceQuota(spec=ResourceQuotaSpec(hard=hard))
    assert sorted(hard_limits_of(quota)) == ["ephemeral-storage", "limits.memory", "requests.example.com/dongle"]
    resources = {"requests": {"example.com/dongle": "2"}, "limits": {"memory": "1Gi"}}
    pod = kind_of(Pod).decode({"spec": {"containers": [{"name": "c", "resources": resources}]}})
    used = usage_of([pod], hard_limits_of(quota))
    assert used == {"requests.example.com/dongle": 2, "ephemeral-storage": 0, "limits.memory": 1 << 30}


def test_containers_must_specify_what_a_quota_limits() -> None:
    quota = ResourceQuota(spec=ResourceQuotaSpec(hard={"cpu": "1", "limits.memory": "1Gi", "pods": "3"}))
    containers = [{"name": "a", "resources": {"requests": {"cpu": "1"}}}, {"name": "b"}]
    pod = kind_of(Pod).decode({"spec": {"containers": containers}})
    assert missing_amounts(quota, pod) == "cpu for: b; limits.memory for: a,b"


def test_scope_of_affinity_across_namespaces() -> None:
    quota = ResourceQuota(spec=ResourceQuotaSpec(scopes=("CrossNamespacePodAffinity",)))

    def pod_with(term: dict) -> Pod:
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "region", **term}]}
        return kind_of(Pod).decode({"spec": {"containers": [], "affinity": {"podAntiAffinity": terms}}})

    assert quota_applies_to(quota, pod_with({"namespaces": ["other"]}))
    assert quota_applies_to(quota, pod_with({"namespaceSelector": {}}))
    assert not quota_applies_to(quota, pod_with({}))


def test_a_pod_without_a_class_has_none() -> None:
    plain = pod("p", cpu="1")
    assert not quota_applies_to(quota({}, operator="Exists", values=[]), plain)
    assert quota_applies_to(quota({}, operator="DoesNotExist", values=[]), plain)


def test_a_scope_selector_may_name_other_scopes() -> None:
    rule = {"scopeName": "Terminating", "operator": "Exists"}
    selected = msgspec.convert(
        {"metadata": {"name": "q"}, "spec": {"scopeSelector": {"matchExpressions": [rule]}}}, ResourceQuota
    )
    assert not quota_applies_to(selected, HIGH)
    assert quota_applies_to(selected, pod("p", priorityClassName="high", activeDeadlineSeconds=5))


def test_a_quota_may_be_used_up_exactly() -> None:
    limited = quota({"requests.cpu": "2"})
    assert quota_excess(limited, HIGH, [HIGH]) is None
    assert quota_excess(limited, HIGH, [HIGH, HIGH]) is not None


def test_only_pods_of_its_scope_use_a_quota() -> None:
    limited = quota({"requests.cpu": "1500m"}, operator="In", values=["high"])
    assert quota_excess(limited, HIGH, [pod("low", cpu="1", priorityClassName="low")]) is None
    assert quota_excess(limited, HIGH, [HIGH]) is not None


def test_a_pod_that_uses_none_of_a_resource_is_not_refused_for_it() -> None:
    resources = {"requests": {"cpu": "1", "example.com/dongle": "2"}}
    hungry = pod("hungry", containers=[{"name": "c", "resources": resources}])
    assert quota_excess(quota({"requests.example.com/dongle": "1"}), HIGH, [hungry]) is None


def test_limits_of_other_objects_are_not_used_by_pods() -> None:
    hard = {
        "hugepages-2Mi": "4Mi",
        "requests.storage": "1Gi",
        "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
        "requests.gold.storageclass.storage.k8s.io/x": "1",
        "count/deployments.apps": "3",
        "example.com/dongle": "1",
    }
    assert sorted(hard_limits_of(quota(hard))) == ["hugepages-2Mi"]


def test_only_quotas_that_name_the_priority_guarantee_it_something() -> None:
    terminating = {"scopeName": "Terminating", "operator": "In", "values": ["high"]}
    other_scope = msgspec.convert(
        {
            "metadata": {"name": "q"},
            "spec": {"hard": {"cpu": "1"}, "scopeSelector": {"matchExpressions": [terminating]}},
        },
        ResourceQuota,
    )
    excluded = quota({"cpu": "1"}, operator="NotIn", values=["high"])
    assert guaranteed_amounts([other_scope, excluded, quota({"cpu": "1"})], "high") == {}
