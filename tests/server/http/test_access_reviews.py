"""Access reviews."""

from server.asgi import AsgiClient, with_asgi_client
from server.rbac_objects import ALICE, grant


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


def test_null_in_the_extra_of_a_review_is_an_empty_list() -> None:
    async def scenario(client: AsgiClient) -> None:
        attributes = {"verb": "get", "resource": "pods"}
        body = {"spec": {"user": "bob", "extra": {"a": None}, "resourceAttributes": attributes}}
        assert (await client("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)).status == 201

    with_asgi_client(scenario)
