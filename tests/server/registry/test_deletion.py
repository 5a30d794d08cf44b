"""What a deletion does to an object."""

from datetime import UTC, datetime
from typing import Any

import pytest

from trimtab.api.kind import Kind
from trimtab.api.value import Object
from trimtab.errors import Forbidden
from trimtab.server.registry.deletion import plan_deletion
from trimtab.server.request.options import DeleteOptions
from trimtab.server.resources import ServedResource

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def served(plural: str) -> ServedResource:
    return ServedResource(Kind(Object, group="", version="v1", name="Any", plural=plural), "v1", schema=dict)


def obj(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "uid": "u", **metadata}, "spec": {}}


def test_object_without_finalizers_is_removed_at_once() -> None:
    assert plan_deletion(served("configmaps"), obj(), DeleteOptions(), NOW).removed


def test_object_with_finalizers_is_marked_and_stays() -> None:
    plan = plan_deletion(served("configmaps"), obj(finalizers=["a.io/b"]), DeleteOptions(), NOW)
    assert not plan.removed
    assert plan.obj["metadata"]["deletionTimestamp"] == "2030-01-01T12:00:00Z"
    again = plan_deletion(served("configmaps"), plan.obj, DeleteOptions(), NOW)
    assert (again.removed, again.unchanged) == (False, True)


@pytest.mark.parametrize(
    ("policy", "finalizers"), [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"]), ("Background", None)]
)
def test_propagation_policy_becomes_a_finalizer(policy: str, finalizers: list[str] | None) -> None:
    plan = plan_deletion(served("configmaps"), obj(), DeleteOptions(policy), NOW)
    assert plan.obj["metadata"].get("finalizers") == finalizers
    assert plan.removed == (finalizers is None)


def test_pod_on_a_node_gets_its_grace_period_and_zero_removes_it() -> None:
    pod = {**obj(), "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}}
    plan = plan_deletion(served("pods"), pod, DeleteOptions(), NOW)
    assert not plan.removed
    assert plan.obj["metadata"]["deletionTimestamp"] == "2030-01-01T12:00:30Z"
    shorter = plan_deletion(served("pods"), plan.obj, DeleteOptions(grace_period_seconds=10), NOW)
    assert shorter.obj["metadata"]["deletionTimestamp"] == "2030-01-01T12:00:10Z"
    assert plan_deletion(served("pods"), plan.obj, DeleteOptions(grace_period_seconds=0), NOW).removed
    assert plan_deletion(served("pods"), {**pod, "spec": {}}, DeleteOptions(), NOW).removed


@pytest.mark.parametrize("seconds", [10**12, (1 << 63) - 1])
def test_grace_period_beyond_all_dates_ends_at_the_last_one(seconds: int) -> None:
    pod = {**obj(), "spec": {"nodeName": "n", "terminationGracePeriodSeconds": seconds}}
    plan = plan_deletion(served("pods"), pod, DeleteOptions(), NOW)
    assert plan.obj["metadata"]["deletionTimestamp"] == "9999-12-31T23:59:59Z"
    shorter = plan_deletion(served("pods"), plan.obj, DeleteOptions(grace_period_seconds=10), NOW)
    assert shorter.obj["metadata"]["deletionGracePeriodSeconds"] == 10


def test_namespace_terminates_until_it_is_finalized_and_default_cannot_be_deleted() -> None:
    namespace = {"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}}
    plan = plan_deletion(served("namespaces"), namespace, DeleteOptions(), NOW)
    assert (plan.removed, plan.obj["status"]) == (False, {"phase": "Terminating"})
    assert plan_deletion(served("namespaces"), {**plan.obj, "spec": {}}, DeleteOptions(), NOW).removed
    with pytest.raises(Forbidden, match="may not be deleted"):
        plan_deletion(served("namespaces"), {"metadata": {"name": "default"}}, DeleteOptions(), NOW)
