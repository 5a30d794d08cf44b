"""`matchConditions` decide whether a webhook is called."""

import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, User
from trimtab.server.registry import cel_rules

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
HOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


def configuration(*expressions: str, **more: object) -> dict[str, object]:
    """A webhook that cannot be reached, so that every call fails the request with 500."""
    conditions = [{"name": f"c{index}", "expression": text} for index, text in enumerate(expressions)]
    hook = {
        "name": "hook.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/x"},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": conditions,
        **more,
    }
    return {"metadata": {"name": "hook"}, "webhooks": [hook]}


CALLED, SKIPPED, REFUSED = 500, 201, 403


@pytest.mark.parametrize("kind", ["mutating", "validating"])
@pytest.mark.parametrize(
    ("expressions", "policy", "status"),
    [
        (["object.metadata.name == 'x'"], "Fail", CALLED),
        (["object.metadata.name != 'x'"], "Fail", SKIPPED),
        (["true", "request.operation == 'CREATE'", "oldObject == null"], "Fail", CALLED),
        (["true", "request.operation == 'DELETE'"], "Fail", SKIPPED),
        (["request.userInfo.username == 'nobody'"], "Fail", SKIPPED),
        (["object.data.missing == 'x'"], "Fail", REFUSED),
        (["object.data.missing == 'x'"], "Ignore", SKIPPED),
        (["object.data.missing == 'x'", "false"], "Fail", SKIPPED),
    ],
)
def test_conditions_decide_whether_a_webhook_is_called(
    kind: str, expressions: list[str], policy: str, status: int
) -> None:
    async def scenario(client: AsgiClient) -> None:
        body = configuration(*expressions, failurePolicy=policy)
        assert (await client("POST", HOOKS.format(kind), body)).status == 201
        response = await client("POST", CONFIG_MAPS, {"metadata": {"name": "x"}, "data": {"a": "b"}})
        assert response.status == status
        if status == REFUSED:
            assert "resulted in error: no such key: missing" in response.json()["message"]

    with_asgi_client(scenario)


def test_conditions_of_a_deletion_see_the_old_object() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("POST", CONFIG_MAPS, {"metadata": {"name": "x"}})).status == 201
        assert (await client("POST", CONFIG_MAPS, {"metadata": {"name": "y"}})).status == 201
        body = configuration("object == null && oldObject.metadata.name == 'x'")
        assert (await client("POST", HOOKS.format("validating"), body)).status == 201
        assert (await client("DELETE", f"{CONFIG_MAPS}/x")).status == CALLED
        assert (await client("DELETE", f"{CONFIG_MAPS}/y")).status == 200

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("object.", "compilation failed"),
        ("'text'", "must evaluate to a bool"),
        ("unknown == 1", "undeclared reference to 'unknown'"),
        ("authorizer.group('').check('get').allowed()", "found no matching overload for 'check'"),
        ("", "Required value"),
    ],
)
def test_condition_that_cannot_be_evaluated_is_refused(expression: str, message: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        refused = await client("POST", HOOKS.format("validating"), configuration(expression))
        assert refused.status == 422
        (cause,) = refused.json()["details"]["causes"]
        assert cause["field"] == "webhooks[0].matchConditions[0].expression"
        assert message in cause["message"]

    with_asgi_client(scenario)


READ = "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"
ACCOUNT = "system:serviceaccount:default:reader"


@pytest.mark.parametrize(
    ("expression", "user", "status"),
    [
        (READ, "admin", CALLED),
        (READ, "nobody", SKIPPED),
        (READ, ACCOUNT, CALLED),
        (READ.replace("default", "other"), ACCOUNT, SKIPPED),
        (READ.replace("'get'", "'update'"), ACCOUNT, SKIPPED),
        (READ.replace("authorizer.", "authorizer.serviceAccount('default', 'reader')."), "nobody", CALLED),
        (READ.replace("authorizer.", "authorizer.serviceAccount('other', 'reader')."), "admin", SKIPPED),
        ("authorizer.requestResource.check('create').allowed()", "nobody", CALLED),
        ("authorizer.requestResource.check('delete').allowed()", "nobody", SKIPPED),
        ("authorizer.requestResource.name('named').check('delete').allowed()", "nobody", CALLED),
        ("authorizer.requestResource.subresource('status').check('create').allowed()", "nobody", SKIPPED),
        ("authorizer.path('/version').check('get').allowed()", "nobody", CALLED),
        ("authorizer.path('/metrics').check('get').allowed()", "nobody", SKIPPED),
        (" || ".join([READ.replace("'get'", "'update'")] * 2), "nobody", SKIPPED),
        (" || ".join([READ.replace("'get'", "'update'")] * 3), "nobody", REFUSED),
        ("authorizer.requestResource.check('delete').reason() == ''", "nobody", CALLED),
    ],
)
def test_conditions_ask_what_a_user_may_do(expression: str, user: str, status: int) -> None:
    account = {"kind": "ServiceAccount", "namespace": "default", "name": "reader"}
    everybody = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"}
    writes = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    deletes_one = {**writes, "verbs": ["delete"], "resourceNames": ["named"]}
    reads = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}

    async def scenario(client: AsgiClient) -> None:
        base = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        for name, subject, rules in (("read", account, [reads]), ("write", everybody, [writes, deletes_one])):
            assert (await client("POST", f"{base}/roles", {"metadata": {"name": name}, "rules": rules})).status == 201
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
            binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
            assert (await client("POST", f"{base}/rolebindings", binding)).status == 201
        assert (await client("POST", HOOKS.format("validating"), configuration(expression))).status == 201
        groups = (MASTERS, AUTHENTICATED) if user == "admin" else (AUTHENTICATED,)
        response = await client("POST", CONFIG_MAPS, {"metadata": {"name": "x"}}, user=User(user, groups))
        assert response.status == status
        if status == REFUSED:
            assert "actual cost limit exceeded" in response.json()["message"]

    with_asgi_client(scenario)


def test_number_and_names_of_conditions_are_checked() -> None:
    async def scenario(client: AsgiClient) -> None:
        many = await client("POST", HOOKS.format("validating"), configuration(*["true"] * 65))
        assert "must have at most 64 items" in many.json()["message"]
        body = configuration("true", "false")
        body["webhooks"][0]["matchConditions"][1]["name"] = "c0"  # type: ignore[index]
        twice = await client("POST", HOOKS.format("mutating"), body)
        assert "matchConditions[1].name: Duplicate value" in twice.json()["message"]

    with_asgi_client(scenario)


def test_expressions_are_refused_where_cel_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rule_evaluator", "condition_evaluator"):  # without those that other servers share
        monkeypatch.setattr(f"trimtab.server.apiserver.{name}", getattr(cel_rules, name).__wrapped__)
    monkeypatch.setattr(cel_rules, "find_spec", lambda _: None)
    rules = [{"rule": "self.a == 1"}]
    schema = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": rules}}}
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }

    async def scenario(client: AsgiClient) -> None:
        own = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await client("GET", f"{own}/disruptionbudgets.trimtab.dev")).status == 200
        for path, body in ((own, definition), (HOOKS.format("validating"), configuration("true"))):
            refused = await client("POST", path, body)
            assert refused.status == 422
            assert 'install Trimtab with the extra "cel"' in refused.json()["message"].replace("\\", "")

    with_asgi_client(scenario)
