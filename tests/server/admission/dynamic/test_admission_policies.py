from typing import Any

import pytest

from simulate.fixtures import DEPLOYMENTS, deployment, run_in_whole_cluster
from trimtab.client.client import Resource
from trimtab.errors import ApiError, Forbidden, Invalid
from trimtab.simulate.member import SimulatedMember

POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}


async def bind(member: SimulatedMember, expression: str, *, binding: Any = None, rule: Any = None, **spec: Any) -> None:
    validation = {"expression": expression, **(rule or {})}
    constraints = {"resourceRules": [RULE]}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "rule"},
        "spec": {"matchConstraints": constraints, "validations": [validation], **spec},
    }
    await member.client.create(POLICIES, policy)
    bound = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "bound"},
        "spec": {"policyName": "rule", "validationActions": ["Deny"], **(binding or {})},
    }
    await member.client.create(BINDINGS, bound)


def test_a_write_that_violates_a_policy_is_refused_with_its_message() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await bind(member, "object.spec.replicas <= 2", rule={"messageExpression": "'at most ' + string(2)"})
        await member.client.create(DEPLOYMENTS, deployment("small", 2))
        denied = "ValidatingAdmissionPolicy 'rule' with binding 'bound' denied request: at most 2"
        with pytest.raises(Invalid, match=denied):
            await member.client.create(DEPLOYMENTS, deployment("large", 3))

    run_in_whole_cluster(scenario)


def test_a_policy_refuses_before_the_version_of_a_new_object_is_checked() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await bind(member, "object.spec.replicas <= 2")
        small, large = deployment("small", 2), deployment("large", 3)
        for body in (small, large):
            body["metadata"]["resourceVersion"] = "7"
        with pytest.raises(Invalid, match="failed expression"):
            await member.client.create(DEPLOYMENTS, large)
        with pytest.raises(ApiError, match="resourceVersion should not be set on objects to be created"):
            await member.client.create(DEPLOYMENTS, small)

    run_in_whole_cluster(scenario)


def test_a_policy_asks_what_the_user_may_do() -> None:
    async def scenario(member: SimulatedMember) -> None:
        may_read = "authorizer.serviceAccount('default', '{}').group('').resource('nodes').check('list').allowed()"
        await bind(member, f"{may_read.format('nobody')} || object.spec.replicas <= 2")
        await member.client.create(DEPLOYMENTS, deployment("small", 2))
        with pytest.raises(Invalid, match="failed expression"):
            await member.client.create(DEPLOYMENTS, deployment("large", 3))
        subject = {"kind": "ServiceAccount", "namespace": "default", "name": "nobody"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        body = {"metadata": {"name": "more"}, "roleRef": role, "subjects": [subject]}
        await member.client.create(ROLE_BINDINGS, body)
        await member.client.create(DEPLOYMENTS, deployment("large", 3))

    run_in_whole_cluster(scenario)


def test_variables_conditions_and_reasons_are_honoured() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await bind(
            member,
            "variables.size < 3",
            rule={"reason": "Forbidden"},
            variables=[{"name": "size", "expression": "object.spec.replicas"}],
            matchConditions=[{"name": "not-exempt", "expression": "object.metadata.name != 'exempt'"}],
        )
        await member.client.create(DEPLOYMENTS, deployment("exempt", 5))
        with pytest.raises(Forbidden, match=r"failed expression: variables\.size < 3"):
            await member.client.create(DEPLOYMENTS, deployment("large", 5))

    run_in_whole_cluster(scenario)


def test_a_parameter_sets_the_limit_and_a_missing_one_refuses() -> None:
    async def scenario(member: SimulatedMember) -> None:
        reference = {"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"}
        await bind(
            member,
            "object.spec.replicas <= int(params.data.most)",
            binding={"paramRef": reference},
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        )
        with pytest.raises(Invalid, match="no params found"):
            await member.client.create(DEPLOYMENTS, deployment("one", 1))
        limit = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limit", "namespace": "default"}}
        await member.client.create(CONFIG_MAPS, {**limit, "data": {"most": "2"}})
        await member.client.create(DEPLOYMENTS, deployment("one", 1))
        with pytest.raises(Invalid, match="denied request"):
            await member.client.create(DEPLOYMENTS, deployment("three", 3))

    run_in_whole_cluster(scenario)


def test_an_expression_without_a_value_refuses_unless_failures_are_ignored() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await bind(member, "object.spec.missing == 1")
        with pytest.raises(Invalid, match="resulted in error"):
            await member.client.create(DEPLOYMENTS, deployment("one", 1))
        await member.client.patch(POLICIES, "", "rule", {"spec": {"failurePolicy": "Ignore"}})
        await member.client.create(DEPLOYMENTS, deployment("one", 1))

    run_in_whole_cluster(scenario)
