"""The status of admission policies."""

import asyncio

import pytest

from server.asgi import AsgiClient, with_asgi_client

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def policy(name: str, **validation: str) -> dict:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}
    return {
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]},
    }


def test_expressions_are_checked_against_the_kinds_that_the_policy_matches() -> None:
    pytest.importorskip("cel_expr_python")

    async def scenario(wire: AsgiClient) -> None:
        async def status_of(name: str, **validation: str) -> dict:
            assert (await wire("POST", POLICIES, policy(name, **validation))).status == 201
            await asyncio.sleep(0.2)
            return (await wire("GET", f"{POLICIES}/{name}")).json()["status"]["typeChecking"]

        assert await status_of("right", expression="object.spec.replicas > 1") == {}
        confused = {"expression": "object.spec.replicas > '1'", "messageExpression": "'got ' + object.spec.replicas"}
        first, second = (await status_of("confused", **confused))["expressionWarnings"]
        assert first["fieldRef"] == "spec.validations[0].expression"
        assert first["warning"].startswith("apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload")
        assert "'_+_' applied to '(string, int)'" in second["warning"]
        (unknown,) = (await status_of("unknown", expression="object.spec.maxRetries < 10"))["expressionWarnings"]
        assert "undefined field 'maxRetries'" in unknown["warning"]

    with_asgi_client(scenario)
