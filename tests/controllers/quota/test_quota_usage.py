"""What bindings use of a federated quota, and which changes of them it refuses."""

from typing import Any

import msgspec
import pytest
from builders import NOON, binding
from views import FakeView

from trimtab.api.kinds.quota import FederatedResourceQuota
from trimtab.api.kinds.work import Component, ReplicaRequirements, ResourceBinding
from trimtab.api.profile import UPSTREAM, Profile
from trimtab.api.quantity import parse_quantity
from trimtab.controllers.quota.quota_usage import QuotaLedger, use_of, used_of_quota

CPU = {"cpu": "100m"}


def quota(**overall: str) -> FederatedResourceQuota:
    body = {"metadata": {"namespace": "demo", "name": "q"}, "spec": {"overall": overall}}
    return msgspec.convert(body, FederatedResourceQuota)


def workload(name: str, clusters: dict[str, int], request: dict[str, str], **fields: Any) -> ResourceBinding:
    requirements = ReplicaRequirements(resource_request=request)
    return binding(name, clusters=clusters, replica_requirements=requirements, **fields)


def amounts(**texts: str) -> dict[str, Any]:
    return {name: parse_quantity(text) for name, text in texts.items()}


def test_use_is_the_request_of_all_placed_replicas() -> None:
    assert use_of(workload("web", {"m1": 2, "m2": 3}, {**CPU, "memory": "0"})) == amounts(cpu="500m")
    assert use_of(workload("web", {}, CPU)) == {}
    assert use_of(binding("web", clusters={"m1": 2})) == {}
    assert use_of(workload("web", {"m1": 1}, CPU), replicas=4) == amounts(cpu="400m")


def test_components_are_used_once_per_cluster() -> None:
    parts = tuple(
        Component(name=name, replicas=replicas, replica_requirements=ReplicaRequirements(resource_request=request))
        for name, replicas, request in (("a", 3, {"cpu": "2", "memory": "50Mi"}), ("b", 1, {"cpu": "1"}))
    )
    found = binding("job", clusters={"m1": 0, "m2": 0}, components=parts)
    assert use_of(found) == amounts(cpu="14", memory="300Mi")
    assert use_of(found, clusters=1) == amounts(cpu="7", memory="150Mi")


def test_status_has_the_limited_resources_in_the_form_of_their_limit() -> None:
    limited = quota(cpu="1", memory="1Gi", pods="9")
    bindings = [workload("a", {"m1": 2}, {**CPU, "memory": "64Mi", "gpu": "1"}), workload("b", {"m2": 1}, CPU)]
    assert used_of_quota(limited, FakeView([limited, *bindings])) == {"cpu": "300m", "memory": "128Mi"}


def refusal(limit: str, clusters: dict[str, int], after: int, **view: Any) -> str:
    one, other = workload("a", clusters, CPU), workload("b", {"m1": 1}, CPU)
    ledger = QuotaLedger(FakeView([quota(cpu=limit), one, other], **view))
    return ledger.charge("demo", use_of(one), use_of(one, replicas=after))


def test_growth_beyond_the_limit_is_refused() -> None:
    text = "FederatedResourceQuota(demo/q) exceeded for resource cpu: requested sum 300m, limit 200m."
    assert refusal("200m", {"m1": 1}, after=2) == text
    assert refusal("300m", {"m1": 1}, after=2) == ""
    assert refusal("200m", {}, after=1) == ""


def test_quota_that_is_being_deleted_limits_nothing() -> None:
    one, limit = workload("a", {"m1": 1}, CPU), quota(cpu="100m")
    terminating = limit.but(metadata=limit.metadata.but(deletion_timestamp=NOON))
    for found, is_refused in ((limit, True), (terminating, False)):
        ledger = QuotaLedger(FakeView([found, one]))
        assert bool(ledger.charge("demo", use_of(one), use_of(one, replicas=2))) == is_refused


def test_what_is_over_a_reduced_limit_may_shrink_and_stay() -> None:
    assert refusal("100m", {"m1": 5}, after=4) == ""
    assert refusal("100m", {"m1": 5}, after=5) == ""
    assert refusal("100m", {"m1": 5}, after=6) != ""


@pytest.mark.parametrize(("profile", "on"), [(UPSTREAM, None), (None, False)])
def test_enforcement_is_a_setting(profile: Profile | None, on: bool | None) -> None:
    given: dict[str, Any] = {"profile": profile} if profile is not None else {}
    assert refusal("200m", {"m1": 1}, after=2, settings={} if on is None else {"quota-enforcement": on}, **given) == ""


def test_refusal_reads_as_that_of_the_webhook_in_the_profile_upstream() -> None:
    text = refusal("200m", {"m1": 1}, after=2, profile=UPSTREAM, settings={"quota-enforcement": True})
    assert text.startswith('admission webhook "resourcebinding.karmada.io" denied the request: FederatedResourceQuota')


def test_changes_of_one_reconcile_share_the_quota() -> None:
    one, other = workload("a", {}, CPU), workload("b", {}, CPU)
    ledger = QuotaLedger(FakeView([quota(cpu="150m"), one, other]))
    assert ledger.charge("demo", {}, use_of(one, replicas=1)) == ""
    assert ledger.charge("demo", {}, use_of(other, replicas=1)) != ""
    assert ledger.charge("elsewhere", {}, amounts(cpu="9")) == ""
