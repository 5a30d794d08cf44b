"""What the kubelet of a node may read."""

import asyncio

import orjson
import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.auth.authorize import Action, Authorizer
from trimtab.server.auth.node_authorizer import used_objects
from trimtab.server.auth.user import User
from trimtab.server.request.routes import parse_path
from trimtab.store.keys import object_key
from trimtab.store.store import Store

NODE = User("system:node:one", ("system:nodes", "system:authenticated"))
SPACE = "/api/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


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


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("get", "/api/v1/nodes/one", True),
        ("list", "/api/v1/nodes", False),
        ("get", "/api/v1/nodes/two", False),
        ("patch", "/api/v1/nodes/one/status", True),
        ("patch", "/api/v1/nodes/two/status", False),
        ("patch", "/api/v1/nodes/one", False),
        ("delete", "/api/v1/nodes/one", False),
        ("get", "/api/v1/nodes/one/proxy", False),
        ("get", f"{SPACE}/pods/a", True),
        ("patch", f"{SPACE}/pods/a/status", True),
        ("get", f"{SPACE}/pods/b", False),
        ("patch", f"{SPACE}/pods/b/status", False),
        ("list", f"{SPACE}/pods", False),
        ("delete", f"{SPACE}/pods/a", False),
        ("create", f"{SPACE}/pods/a/exec", False),
        ("list", "/api/v1/services", True),
        ("delete", f"{SPACE}/services/s", False),
        ("get", f"{LEASES}/one", True),
        ("patch", f"{LEASES}/one", True),
        ("patch", f"{LEASES}/two", False),
        ("get", "/apis/coordination.k8s.io/v1/namespaces/default/leases/one", False),
        ("get", "/apis/apps/v1/namespaces/default/secrets/mine", False),
    ],
)
def test_node_acts_on_itself_and_on_its_own_pods_only(verb: str, path: str, allowed: bool) -> None:
    async def scenario(client: AsgiClient) -> None:
        for body in (pod("a", "one", "mine"), pod("b", "two", "mine")):
            assert (await client("POST", f"{SPACE}/pods", body)).status == 201
        target = parse_path(path)
        assert target is not None
        action = Action(verb, target.group, target.resource, target.subresource, target.namespace, target.name)
        assert client.server.authorizer.allows(NODE, action) is allowed
        assert not client.server.authorizer.allows(User("system:node:one", ("system:authenticated",)), action)

    with_asgi_client(scenario)


def test_node_finds_no_object_by_its_name_in_all_namespaces() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("POST", f"{SPACE}/pods", pod("a", "one", "mine"))).status == 201
        assert client.server.authorizer.allows(NODE, Action("list", "", "secrets", "", "default", "mine"))
        assert not client.server.authorizer.allows(NODE, Action("list", "", "secrets", "", "", "mine"))

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
