"""Access reviews."""

from server.asgi import AsgiClient, with_asgi_client
from server.rbac_objects import ALICE, BINDINGS, ROLES, cluster_binding, cluster_role, grant, rule


def test_self_subject_access_review_returns_the_rbac_decision() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant(client, "ClusterRole", "view")
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        for resource, allowed in (("configmaps", True), ("secrets", False)):
            attributes = {"verb": "list", "resource": resource, "namespace": "default"}
            body = {
                "kind": "SelfSubjectAccessReview",
                "apiVersion": "authorization.k8s.io/v1",
                "spec": {"resourceAttributes": attributes},
            }
            response = await client("POST", path, body, user=ALICE)
            assert response.json()["status"]["allowed"] is allowed

    with_asgi_client(scenario)


REVIEWS = "/apis/authorization.k8s.io/v1"


async def may(client: AsgiClient, **spec: dict) -> bool:
    body = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": spec}
    response = await client("POST", f"{REVIEWS}/selfsubjectaccessreviews", body, user=ALICE)
    found: bool = response.json()["status"]["allowed"]
    return found


def test_reviews_agree_with_the_authorizer_about_head_names_and_aggregated_rules() -> None:
    async def scenario(client: AsgiClient) -> None:
        await client(
            "POST", ROLES, cluster_role("leaf", rule("list", "secrets", resourceNames=["one"]), labels={"a": "b"})
        )
        await client(
            "POST", ROLES, cluster_role("top", {"verbs": ["get"], "nonResourceURLs": ["/m*"]}, selects={"a": "b"})
        )
        await client("POST", BINDINGS, cluster_binding("alice", "top", "alice"))
        for path, verb, allowed in (("/metrics", "get", True), ("/metrics", "head", True), ("/metrics", "post", False)):
            assert await may(client, nonResourceAttributes={"path": path, "verb": verb}) is allowed
        for name, allowed in (("one", True), ("two", False), ("", False)):
            attributes = {"verb": "list", "resource": "secrets", "name": name, "namespace": "default"}
            assert await may(client, resourceAttributes=attributes) is allowed
        for method in ("GET", "HEAD"):
            assert (await client(method, "/metrics", user=ALICE)).status == 200

    with_asgi_client(scenario)


def test_rules_review_contains_aggregated_rules() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant(client, "ClusterRole", "edit")
        body = {
            "kind": "SelfSubjectRulesReview",
            "apiVersion": "authorization.k8s.io/v1",
            "spec": {"namespace": "default"},
        }
        response = await client("POST", f"{REVIEWS}/selfsubjectrulesreviews", body, user=ALICE)
        rules = response.json()["status"]["resourceRules"]
        assert any("secrets" in found["resources"] and "delete" in found["verbs"] for found in rules)

    with_asgi_client(scenario)


def test_null_in_the_extra_of_a_review_is_an_empty_list() -> None:
    async def scenario(client: AsgiClient) -> None:
        attributes = {"verb": "get", "resource": "pods"}
        body = {"spec": {"user": "bob", "extra": {"a": None}, "resourceAttributes": attributes}}
        assert (await client("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)).status == 201

    with_asgi_client(scenario)


def test_review_cannot_be_sent_as_a_table() -> None:
    async def scenario(client: AsgiClient) -> None:
        body = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
        body["spec"] = {"nonResourceAttributes": {"path": "/", "verb": "get"}}
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        response = await client("POST", f"{REVIEWS}/selfsubjectaccessreviews", body, accept=table)
        assert (response.status, response.json()["reason"]) == (406, "NotAcceptable")

    with_asgi_client(scenario)
