"""The permissions of the account as which the manifests of a Work are applied."""

from datetime import timedelta

from builders import NOON, cluster, configmap
from views import FakeView

from trimtab.api.kinds.work import Work, WorkloadTemplate, WorkSpec
from trimtab.api.value import Meta, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import ACCESS, AccessAnswer
from trimtab.controllers.propagation.works.executor_access import (
    ACCESS_CHECK_SECONDS,
    access_checks,
    cached_access,
    forbidden_delivery,
)


def work(*manifests: Raw, executor: str = "team/robot", preserve: bool | None = None) -> Work:
    annotations = {well_known.EXECUTOR: executor} if executor else {}
    spec = WorkSpec(workload=WorkloadTemplate(manifests=manifests), preserve_resources_on_deletion=preserve)
    return Work(metadata=Meta(name="w", namespace="karmada-es-m1", annotations=annotations), spec=spec)


def role(kind: str) -> Raw:
    api_version = "rbac.authorization.k8s.io/v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "r", "namespace": "demo"}}


def test_a_work_without_an_executor_needs_no_review() -> None:
    assert access_checks(work(configmap(), executor=""), cluster("m1")) == {}


def test_the_executor_needs_every_verb_that_may_be_used() -> None:
    (check,) = access_checks(work(configmap()), cluster("m1")).values()
    assert check.user == "system:serviceaccount:team:robot"
    assert set(check.verbs) == {"create", "update", "patch", "get", "delete"}


def test_what_is_kept_needs_no_right_to_delete() -> None:
    (check,) = access_checks(work(configmap(), preserve=True), cluster("m1")).values()
    assert "delete" not in check.verbs


def test_what_is_only_read_needs_only_get() -> None:
    readable = configmap(annotations={well_known.UPDATE_STRATEGY: "ReadOnly"})
    (check,) = access_checks(work(readable), cluster("m1")).values()
    assert check.verbs == ("get",)


def test_roles_need_the_right_to_grant_what_the_executor_does_not_have() -> None:
    checks = access_checks(work(role("Role"), role("RoleBinding")), cluster("m1"))
    assert "escalate" in checks[0].verbs
    assert "bind" in checks[1].verbs


def test_an_answer_expires() -> None:
    (check,) = access_checks(work(configmap()), cluster("m1")).values()
    view = FakeView()
    assert cached_access(check, view) is None
    view.memory[ACCESS, check] = AccessAnswer(NOON, allowed=True)
    assert cached_access(check, view) is True
    view.steady_now = NOON + timedelta(seconds=ACCESS_CHECK_SECONDS)
    assert cached_access(check, view) is None


def test_a_forbidden_manifest_is_not_written() -> None:
    delivery = forbidden_delivery(configmap(), FakeView())
    assert delivery.write is None
    assert "not allowed to apply" in delivery.problem


def test_what_is_orphaned_on_deletion_needs_no_right_to_delete() -> None:
    orphaned = configmap(annotations={well_known.ON_DELETION: "Orphan"})
    first, second = access_checks(work(orphaned, configmap("other")), cluster("m1")).values()
    assert "delete" not in first.verbs
    assert "delete" in second.verbs
