"""Who may do what: certificates, tokens, roles, impersonation, and nobody giving away more than they have."""

import pytest

from server.asgi import Wire, with_wire
from trimtab.server.auth.authenticate import user_of_certificate
from trimtab.server.auth.user import AUTHENTICATED, User

ALICE = User("alice", (AUTHENTICATED,))
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def role(name: str, *rules: dict) -> dict:
    return {
        "kind": "Role",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def binding(name: str, role_kind: str, role_name: str, user: str) -> dict:
    return {
        "kind": "RoleBinding",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role_name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


async def grant(wire: Wire, kind: str, name: str, user: str = "alice") -> None:
    path = f"{RBAC}/namespaces/default/rolebindings"
    assert (await wire("POST", path, binding(f"{user}-{name}", kind, name, user))).status == 201


def test_a_certificate_names_its_user_and_groups() -> None:
    subject = ((("organizationName", "devs"),), (("commonName", "alice"),))
    assert user_of_certificate({"subject": subject}) == User("alice", ("devs", AUTHENTICATED))
    assert user_of_certificate({}) is None


def test_nobody_sees_only_health_and_version() -> None:
    async def story(wire: Wire) -> None:
        for path in ("/readyz", "/livez", "/healthz", "/version"):
            assert (await wire("GET", path, user=None)).status == 200
        for path in ("/api", "/apis", "/metrics", "/openapi/v3", CONFIG_MAPS):
            assert (await wire("GET", path, user=None)).status == 403

    with_wire(story)


def test_a_wrong_token_is_refused_everywhere() -> None:
    async def story(wire: Wire) -> None:
        assert (await wire("GET", "/readyz", user=None, authorization="Bearer nonsense")).status == 401

    with_wire(story)


def test_a_binding_opens_what_its_role_names_and_no_more() -> None:
    async def story(wire: Wire) -> None:
        assert (await wire("GET", CONFIG_MAPS, user=ALICE)).status == 403
        await grant(wire, "ClusterRole", "view")
        assert (await wire("GET", CONFIG_MAPS, user=ALICE)).status == 200
        assert (await wire("GET", "/api/v1/namespaces/default/secrets", user=ALICE)).status == 403
        assert (await wire("GET", "/api/v1/namespaces/kube-system/configmaps", user=ALICE)).status == 403
        refused = await wire("DELETE", f"{CONFIG_MAPS}/x", user=ALICE)
        assert refused.json()["message"] == (
            'configmaps "x" is forbidden: User "alice" cannot delete resource "configmaps" in API group "" '
            'in the namespace "default"'
        )

    with_wire(story)


def test_taking_a_binding_away_closes_at_once() -> None:
    async def story(wire: Wire) -> None:
        await grant(wire, "ClusterRole", "view")
        assert (await wire("GET", CONFIG_MAPS, user=ALICE)).status == 200
        await wire("DELETE", f"{RBAC}/namespaces/default/rolebindings/alice-view")
        assert (await wire("GET", CONFIG_MAPS, user=ALICE)).status == 403

    with_wire(story)


def test_a_service_account_is_known_by_its_token_while_it_exists() -> None:
    async def story(wire: Wire) -> None:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await wire("POST", accounts, {"metadata": {"name": "bot"}})
        request = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
        token = (await wire("POST", f"{accounts}/bot/token", request)).json()["status"]["token"]
        review = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        told = await wire("POST", path, review, user=None, authorization=f"Bearer {token}")
        assert told.json()["status"]["userInfo"]["username"] == "system:serviceaccount:default:bot"
        await wire("DELETE", f"{accounts}/bot")
        assert (await wire("GET", "/version", user=None, authorization=f"Bearer {token}")).status == 401

    with_wire(story)


def test_a_token_is_good_for_its_time_only() -> None:
    async def story(wire: Wire) -> None:
        import asyncio

        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await wire("POST", accounts, {"metadata": {"name": "bot"}})
        request = {"spec": {"expirationSeconds": 600}}
        token = (await wire("POST", f"{accounts}/bot/token", request)).json()["status"]["token"]
        await asyncio.sleep(601)
        assert (await wire("GET", "/version", user=None, authorization=f"Bearer {token}")).status == 401

    with_wire(story)


def test_impersonation_has_to_be_allowed() -> None:
    async def story(wire: Wire) -> None:
        refused = await wire("GET", CONFIG_MAPS, user=ALICE, impersonate_user="bob")
        assert (refused.status, refused.json()["reason"]) == (403, "Forbidden")
        as_nobody = await wire("GET", CONFIG_MAPS, impersonate_user="bob")
        assert 'User "bob" cannot list' in as_nobody.json()["message"]

    with_wire(story)


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}, 201),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}, 403),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, 403),
    ],
)
def test_nobody_gives_away_more_than_they_have(rule: dict, status: int) -> None:
    async def story(wire: Wire) -> None:
        await grant(wire, "ClusterRole", "view")
        roles = f"{RBAC}/namespaces/default/roles"
        keeper = role("keeper", {"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]})
        keeper["rules"][0]["verbs"] = ["create", "get"]
        await wire("POST", roles, keeper)
        await grant(wire, "Role", "keeper")
        assert (await wire("POST", roles, role("new", rule), user=ALICE)).status == status

    with_wire(story)


def test_access_reviews_say_what_would_happen() -> None:
    async def story(wire: Wire) -> None:
        await grant(wire, "ClusterRole", "view")
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        for resource, allowed in (("configmaps", True), ("secrets", False)):
            attributes = {"verb": "list", "resource": resource, "namespace": "default"}
            body = {
                "kind": "SelfSubjectAccessReview",
                "apiVersion": "authorization.k8s.io/v1",
                "spec": {"resourceAttributes": attributes},
            }
            told = await wire("POST", path, body, user=ALICE)
            assert told.json()["status"]["allowed"] is allowed

    with_wire(story)
