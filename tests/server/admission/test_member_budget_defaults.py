"""Defaults of budgets in a member cluster."""

import asyncio

import pytest

from trimtab.api.kind import Kind
from trimtab.api.value import Object
from trimtab.server.admission.chain import Attributes
from trimtab.server.admission.member_budget_defaults import MemberBudgetDefaults
from trimtab.server.auth.user import Caller
from trimtab.server.resources import ObjectPath, ServedResource

KIND = Kind(Object, group="trimtab.dev", version="v1alpha1", name="DisruptionBudget", plural="disruptionbudgets")


@pytest.mark.parametrize(
    ("spec", "subresource", "target"),
    [({}, "", "Pods"), ({"target": "Workloads"}, "", "Workloads"), ({}, "status", None)],
)
def test_budget_targets_pods_unless_it_says_otherwise(spec: dict, subresource: str, target: str | None) -> None:
    where = ObjectPath(ServedResource(KIND, "v1alpha1", schema=dict), "default", "b", subresource)
    admitted = asyncio.run(MemberBudgetDefaults().mutate(Attributes("CREATE", where, Caller()), {"spec": spec}, None))
    assert admitted["spec"].get("target") == target


def test_only_disruption_budgets_are_handled() -> None:
    assert MemberBudgetDefaults().handles(KIND, "CREATE")
    assert not MemberBudgetDefaults().handles(Kind(Object, group="", version="v1", name="Pod", plural="pods"), "CREATE")
