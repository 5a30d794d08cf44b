"""The webhook sets the defaults and refuses the objects that the embedded server does."""

import asyncio
from typing import cast

import pytest

from api.admission.enforcement_cases import all_cases, policy
from trimtab.api.admission.enforcement import CHECKED_BEFORE_SCHEMA
from trimtab.api.kind import find_kind
from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.webhook.kind_admission import CUSTOMIZATIONS, PRIORITY_CLASSES, PRIORITY_ORDERS, KindAdmission
from trimtab.webhook.requirement_checks import RequirementChecks
from trimtab.webhook.review import Refused, Review
from webhook.webhook_helpers import Cluster, ReviewingClient, creation, run_in_cluster, settle

POLICIES = "propagationpolicies.policy.karmada.io"
BUDGETS = "disruptionbudgets.trimtab.dev"


def priority_class(name: str, value: int) -> Raw:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def order(*names: str) -> Raw:
    return {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "PriorityOrder",
        "metadata": {"name": "default"},
        "spec": {"names": list(names)},
    }


async def refusal(admission: KindAdmission, review: Review) -> str:
    try:
        await admission.validate(review)
    except Refused as refused:
        return refused.fault.message
    return ""


def test_new_policy_gets_defaults_a_permanent_id_and_a_finalizer() -> None:
    async def scenario(cluster: Cluster) -> None:
        admission = KindAdmission(cluster.cache, new_id=lambda: "id-1")
        obj = policy(placement={"spreadConstraints": [{"maxGroups": 2}]})
        changed = (await admission.mutate(creation(POLICIES, obj))).object
        assert changed is not None
        assert changed["metadata"]["labels"] == {"propagationpolicy.karmada.io/permanent-id": "id-1"}
        assert changed["metadata"]["finalizers"] == ["karmada.io/propagation-policy-controller"]
        assert changed["spec"]["placement"]["spreadConstraints"] == [
            {"maxGroups": 2, "spreadByField": "cluster", "minGroups": 1}
        ]
        assert changed["spec"]["resourceSelectors"][0]["namespace"] == "default"
        update = creation(POLICIES, changed)._replace(operation="UPDATE")
        assert (await admission.mutate(update)).object == changed

    run_in_cluster(scenario)


@pytest.mark.parametrize("target", ["Workloads", "Pods"])
def test_budget_selects_what_the_cluster_is_for(target: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        admission = KindAdmission(cluster.cache, budget_target=target)
        obj = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionBudget", "metadata": {"name": "b"}, "spec": {}}
        changed = (await admission.mutate(creation(BUDGETS, obj))).object
        assert changed is not None
        assert changed["spec"]["target"] == target

    run_in_cluster(scenario)


def test_webhook_refuses_what_the_checks_of_the_kinds_refuse() -> None:
    async def scenario(cluster: Cluster) -> None:
        administrator = {"user": "admin", "groups": ("system:masters",)}
        admission = KindAdmission(
            cluster.cache, requirements=RequirementChecks(cast("Client", ReviewingClient(cluster)))
        )
        refused = 0
        for case in all_cases():
            kind = find_kind(case.obj["apiVersion"], case.obj["kind"])
            assert kind is not None
            try:
                filled = (await admission.mutate(creation(kind.id, case.obj)._replace(operation="UPDATE"))).object
            except Refused:
                assert kind.id in CHECKED_BEFORE_SCHEMA
                filled = case.obj
            assert filled is not None
            causes = [cause for check in kind.admission_validators for cause in check(filled, case.old)]
            message = await refusal(admission, creation(kind.id, filled, old=case.old, **administrator))
            assert bool(message) == bool(causes), case.name
            refused += bool(message)
        assert refused > 80

    run_in_cluster(scenario)


def test_script_that_does_not_compile_is_refused() -> None:
    def customization(script: str) -> Raw:
        rules = {"replicaResource": {"luaScript": script}}
        spec = {"target": {"apiVersion": "a/v1", "kind": "B"}, "customizations": rules}
        return {
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": "c"},
            "spec": spec,
        }

    async def scenario(cluster: Cluster) -> None:
        admission = KindAdmission(cluster.cache)
        good = customization("function GetReplicas(obj) return 1, nil end")
        assert await refusal(admission, creation(CUSTOMIZATIONS, good)) == ""
        message = await refusal(admission, creation(CUSTOMIZATIONS, customization("function (")))
        assert message.startswith("spec.customizations.replicaResource.luaScript: Invalid value")

    run_in_cluster(scenario)


def test_order_and_priority_classes_must_agree() -> None:
    async def scenario(cluster: Cluster) -> None:
        admission = KindAdmission(cluster.cache)
        await cluster.add(priority_class("low", 1), priority_class("high", 10))
        await settle()
        assert await refusal(admission, creation(PRIORITY_ORDERS, order("high", "low"))) == ""
        assert "its value 1 is lower than 10" in await refusal(
            admission, creation(PRIORITY_ORDERS, order("low", "high"))
        )
        await cluster.add(order("high", "low"))
        await settle()
        assert await refusal(admission, creation(PRIORITY_CLASSES, priority_class("low", 5))) == ""
        assert "at most 10" in await refusal(admission, creation(PRIORITY_CLASSES, priority_class("low", 11)))

    run_in_cluster(scenario)


def test_taints_that_evict_need_the_setting() -> None:
    obj = policy("ClusterTaintPolicy") | {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}

    async def scenario(cluster: Cluster) -> None:
        review = creation("clustertaintpolicies.policy.karmada.io", obj)
        assert "NoExecute" in await refusal(KindAdmission(cluster.cache), review)
        assert await refusal(KindAdmission(cluster.cache, allow_no_execute_taints=True), review) == ""
        await asyncio.sleep(0)

    run_in_cluster(scenario)


def test_object_that_is_being_deleted_is_not_checked() -> None:
    obj = policy(preemption="Always")
    leaving = {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}}

    async def scenario(cluster: Cluster) -> None:
        admission = KindAdmission(cluster.cache)
        assert await refusal(admission, creation(POLICIES, obj))
        assert await refusal(admission, creation(POLICIES, leaving)) == ""

    run_in_cluster(scenario)
