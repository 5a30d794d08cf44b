"""ResourceQuotas in the assigned clusters, and their use summed up in the status."""

from typing import Any

import msgspec
from builders import binding, cluster
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.quota import FederatedResourceQuota
from trimtab.api.kinds.work import ReplicaRequirements, Work
from trimtab.api.value import Object
from trimtab.controllers.contract import Delete, RecordEvent
from trimtab.controllers.quota.federated_quota import (
    delete_works,
    federated_quota,
    quota_of_changed_work,
    quotas_for_new_cluster,
    quotas_for_new_execution_namespace,
    quotas_of_changed_binding,
)


def quota(**assigned: dict[str, str]) -> FederatedResourceQuota:
    assignments = [{"clusterName": name, "hard": hard} for name, hard in assigned.items()]
    spec = {"overall": {"cpu": "10"}, "staticAssignments": assignments}
    return msgspec.convert({"metadata": {"namespace": "shop", "name": "q"}, "spec": spec}, FederatedResourceQuota)


def fleet(*names: str) -> list[Object]:
    spaces = [msgspec.convert({"metadata": {"name": f"karmada-es-{name}"}}, Namespace) for name in names]
    return [*(cluster(name) for name in names), *spaces]


def reconcile(subject: FederatedResourceQuota, *others: Object, enforced: bool = False) -> list[Any]:
    view = FakeView([subject, *others], settings={"quota-enforcement": enforced})
    return list(federated_quota(subject, view))


def works_in(effects: list[Any]) -> dict[str, Any]:
    return {one.namespace: one.spec.workload.manifests[0]["spec"] for one in effects if isinstance(one, Work)}


def reported(work: Work, applied: str = "True", **status: dict[str, str]) -> Work:
    condition = {"type": "Applied", "status": applied, "reason": "R", "message": "", "lastTransitionTime": None}
    raw = {"conditions": [condition], "manifestStatuses": [{"identifier": {}, "status": status}]}
    return work.but(status=msgspec.convert(raw, type(work.status)))


def work_of(subject: FederatedResourceQuota, name: str) -> Work:
    effects = reconcile(subject, *fleet(name))
    return next(one for one in effects if isinstance(one, Work))


def test_only_assigned_clusters_get_a_resource_quota() -> None:
    effects = reconcile(quota(m1={"cpu": "4"}, m3={"cpu": "1"}), *fleet("m1", "m2"))
    assert works_in(effects) == {"karmada-es-m1": {"hard": {"cpu": "4"}}}


def test_events_have_the_reasons_of_karmada() -> None:
    def reasons(*, enforced: bool) -> list[str]:
        effects = reconcile(quota(m1={"cpu": "4"}), *fleet("m1"), enforced=enforced)
        return [one.reason for one in effects if isinstance(one, RecordEvent)]

    assert reasons(enforced=False) == ["SyncWorkSucceed", "AggregateStatusSucceed"]
    assert reasons(enforced=True) == ["SyncWorkSucceed", "AggregateStatusSucceed", "CollectOverallStatusSucceed"]


def test_a_cluster_that_lost_its_assignment_loses_its_quota() -> None:
    before = work_of(quota(m1={"cpu": "4"}), "m1")
    effects = reconcile(quota(m2={"cpu": "4"}), *fleet("m1", "m2"), before)
    assert Delete(before) in effects
    assert list(works_in(effects)) == ["karmada-es-m2"]


def test_nothing_is_written_when_works_and_status_are_current() -> None:
    subject = quota(m1={"cpu": "4"})
    done = subject.but(status=subject.status.but(overall=subject.spec.overall))
    assert reconcile(done, *fleet("m1"), work_of(subject, "m1")) == []


def test_status_sums_the_use_of_the_applied_quotas() -> None:
    subject = quota(m1={"cpu": "4"}, m2={"cpu": "4"}, m3={"cpu": "1"})
    works = [
        reported(work_of(subject, "m2"), hard={"cpu": "4"}, used={"cpu": "500m"}),
        reported(work_of(subject, "m1"), hard={"cpu": "4"}, used={"cpu": "1"}),
        reported(work_of(subject, "m3"), applied="False", hard={"cpu": "1"}, used={"cpu": "1"}),
    ]
    (after,) = (one for one in reconcile(subject, *fleet("m1", "m2", "m3"), *works) if isinstance(one, type(subject)))
    assert after.status.overall == {"cpu": "10"}
    assert after.status.overall_used == {"cpu": "1500m"}
    assert [one.cluster_name for one in after.status.aggregated_status] == ["m1", "m2"]


def test_enforced_quota_shows_what_bindings_use() -> None:
    subject = quota(m1={"cpu": "4"})
    requirements = ReplicaRequirements(resource_request={"cpu": "1"})
    placed = binding(clusters={"m1": 3}, replica_requirements=requirements)
    placed = placed.but(metadata=placed.metadata.but(namespace="shop"))
    work = reported(work_of(subject, "m1"), hard={"cpu": "4"}, used={"cpu": "7"})
    effects = reconcile(subject, *fleet("m1"), work, placed, enforced=True)
    (after,) = (one for one in effects if isinstance(one, type(subject)))
    assert after.status.overall_used == {"cpu": "3"}
    grown = placed.but(spec=placed.spec.but(clusters=()))
    view = FakeView([subject])
    assert list(quotas_of_changed_binding(placed, grown, view)) == [key_of(subject)]
    assert list(quotas_of_changed_binding(placed, None, view)) == [key_of(subject)]
    assert list(quotas_of_changed_binding(placed, placed, view)) == []
    assert (
        list(quotas_of_changed_binding(placed, grown, FakeView([subject], settings={"quota-enforcement": False}))) == []
    )


def test_works_disappear_with_the_quota() -> None:
    subject = quota(m1={"cpu": "4"})
    work = work_of(subject, "m1")
    assert list(delete_works(key_of(subject), FakeView([work]))) == [Delete(work)]


def test_changes_of_clusters_and_works_reconcile_the_quota() -> None:
    subject = quota(m1={"cpu": "4"})
    view, (joined, space) = FakeView([subject]), fleet("m1")
    work = work_of(subject, "m1")
    expected = [key_of(subject)]
    assert list(quotas_for_new_cluster(None, joined, view)) == expected
    assert list(quotas_for_new_execution_namespace(None, space, view)) == expected
    assert list(quota_of_changed_work(work, None, view)) == expected
    assert list(quota_of_changed_work(work, reported(work, used={"cpu": "1"}), view)) == expected
    assert list(quota_of_changed_work(work, work, view)) == []
