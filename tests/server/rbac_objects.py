"""Users, paths and RBAC objects for tests of access control."""

from typing import Any

from server.asgi import AsgiClient
from trimtab.server.auth.user import AUTHENTICATED, User

ALICE = User("alice", (AUTHENTICATED,))
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
ROLES, BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
EVERYTHING: list[dict] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


def rule(verbs: str, resources: str, group: str = "", **further: Any) -> dict:
    """A rule whose verbs and resources are words of a text."""
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split(), **further}


def role(name: str, *rules: dict) -> dict:
    return {
        "kind": "Role",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def cluster_role(name: str, *rules: dict, labels: dict | None = None, selects: dict | None = None) -> dict:
    """A ClusterRole; `selects` are the labels of the roles that it aggregates."""
    found = {**role(name, *rules), "kind": "ClusterRole", "metadata": {"name": name, "labels": labels or {}}}
    return {**found, "aggregationRule": aggregation(selects)} if selects is not None else found


def aggregation(labels: dict) -> dict:
    return {"clusterRoleSelectors": [{"matchLabels": labels}]}


def binding(name: str, role_kind: str, role_name: str, user: str) -> dict:
    return {
        "kind": "RoleBinding",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role_name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


def cluster_binding(name: str, role_name: str, user: str) -> dict:
    return {**binding(name, "ClusterRole", role_name, user), "kind": "ClusterRoleBinding"}


async def grant(client: AsgiClient, kind: str, name: str, user: str = "alice") -> None:
    path = f"{RBAC}/namespaces/default/rolebindings"
    assert (await client("POST", path, binding(f"{user}-{name}", kind, name, user))).status == 201


async def grant_cluster_rules(client: AsgiClient, name: str, *rules: dict, user: str = "alice") -> None:
    """Create a ClusterRole with these rules and bind it to the user in the whole cluster."""
    assert (await client("POST", ROLES, cluster_role(name, *rules))).status == 201
    assert (await client("POST", BINDINGS, cluster_binding(f"{user}-{name}", name, user))).status == 201
