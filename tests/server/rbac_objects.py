"""Users, paths and RBAC objects for tests of access control."""

from server.asgi import AsgiClient
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


async def grant(client: AsgiClient, kind: str, name: str, user: str = "alice") -> None:
    path = f"{RBAC}/namespaces/default/rolebindings"
    assert (await client("POST", path, binding(f"{user}-{name}", kind, name, user))).status == 201
