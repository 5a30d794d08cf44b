"""What the kubelet of a node may read."""

import asyncio

import orjson
import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.auth.authorize import Action, Authorizer
from trimtab.server.auth.node_authorizer import used_objects
from trimtab.server.auth.user import User
from trimtab.store.keys import object_key
from trimtab.store.store import Store

NODE = User("system:node:one", ("system:nodes", "system:authenticated"))
SPACE = "/api/v1/namespaces/default"


def pod(name: str, node: str, secret: str) -> dict:
    volumes = [{"name": "v", "secret": {"secretName": secret}}]
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "volumes": volumes},
    }


@pytest.mark.parametrize(
    ("user", "method", "path", "status"),
    [
        (NODE, "GET", "secrets/mine", 200),
        (NODE, "GET", "secrets/other", 403),
        (NODE, "GET", "secrets/nobody", 403),
        (NODE, "GET", "secrets/missing", 403),
        (NODE, "GET", "configmaps/mine", 403),
        (NODE, "GET", "secrets", 403),
        (NODE, "DELETE", "secrets/mine", 403),
        (User("system:node:one", ("system:authenticated",)), "GET", "secrets/mine", 403),
        (User("system:node:two", NODE.groups), "GET", "secrets/mine", 403),
        (User("one", NODE.groups), "GET", "secrets/mine", 403),
    ],
)
def test_node_reads_the_secrets_of_its_pods_only(user: User, method: str, path: str, status: int) -> None:
    async def scenario(client: AsgiClient) -> None:
        for name in ("mine", "other", "nobody"):
            assert (await client("POST", f"{SPACE}/secrets", {"metadata": {"name": name}})).status == 201
        await client("POST", f"{SPACE}/configmaps", {"metadata": {"name": "mine"}})
        assert (await client("GET", f"{SPACE}/secrets/mine", user=NODE)).status == 403
        for body in (pod("a", "one", "mine"), pod("b", "one-more", "other")):
            assert (await client("POST", f"{SPACE}/pods", body)).status == 201
        assert (await client(method, f"{SPACE}/{path}", user=user)).status == status

    with_asgi_client(scenario)


def test_every_way_to_use_an_object_counts() -> None:
    spec = {
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [{"envFrom": [{"secretRef": {"name": "from"}}, {"configMapRef": {"name": "from"}}]}],
        "containers": [
            {"env": [{"name": "x", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}, {"name": "y"}]}
        ],
        "volumes": [
            {"persistentVolumeClaim": {"claimName": "claim"}},
            {"projected": {"sources": [{"configMap": {"name": "ca"}}, {"serviceAccountToken": {"path": "t"}}]}},
            {"emptyDir": {}},
        ],
    }
    assert used_objects(spec) == {
        ("secrets", "pull"),
        ("secrets", "from"),
        ("configmaps", "from"),
        ("secrets", "key"),
        ("persistentvolumeclaims", "claim"),
        ("configmaps", "ca"),
    }


@pytest.mark.parametrize(
    ("action", "allowed"),
    [
        (Action("get", "", "secrets", "", "default", "mine"), True),
        (Action("get", "", "secrets", "status", "default", "mine"), False),
        (Action("get", "example.com", "secrets", "", "default", "mine"), False),
    ],
)
def test_node_reads_neither_subresources_nor_resources_of_other_groups(action: Action, allowed: bool) -> None:
    store = Store()
    asyncio.run(store.create(object_key("", "pods", "default", "a"), orjson.dumps(pod("a", "one", "mine"))))
    assert Authorizer(store).allows(NODE, action) is allowed
