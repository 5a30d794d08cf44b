from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.subresources.binding import BIND_GENERATION, BINDER

PODS = "/api/v1/namespaces/default/pods"


async def bind(wire: AsgiClient, name: str, seen: int | None = None, binder: str = "", node: str = "a"):
    pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
    assert (await wire("POST", PODS, pod)).status == 201
    annotations = {BIND_GENERATION: str(seen), BINDER: binder} if seen is not None else {}
    body = {"metadata": {"name": name, "annotations": annotations}, "target": {"kind": "Node", "name": node}}
    return await wire("POST", f"{PODS}/{name}/binding", body)


async def revision_of(wire: AsgiClient, name: str) -> int:
    return int((await wire("GET", f"{PODS}/{name}")).json()["metadata"]["resourceVersion"])


def test_binding_is_refused_if_another_scheduler_bound_to_the_node_since() -> None:
    async def scenario(wire: AsgiClient) -> None:
        before = wire.server.store.revision
        assert (await bind(wire, "other", before, "other")).status == 201
        late = await bind(wire, "late", before, "ours")
        assert late.status == 409
        assert "another pod was bound to node a since it was chosen" in late.json()["message"]
        assert "nodeName" not in (await wire("GET", f"{PODS}/late")).json()["spec"]
        assert (await bind(wire, "elsewhere", before, "ours", node="b")).status == 201
        assert (await bind(wire, "informed", await revision_of(wire, "other"), "ours")).status == 201

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_own_bindings_do_not_conflict_but_others_do() -> None:
    async def scenario(wire: AsgiClient) -> None:
        before = wire.server.store.revision
        assert (await bind(wire, "first", before, "ours")).status == 201
        assert (await bind(wire, "second", before, "ours")).status == 201
        assert (await bind(wire, "stranger")).status == 201
        informed = await revision_of(wire, "stranger")
        assert (await bind(wire, "third", informed, "ours")).status == 201
        assert (await bind(wire, "decided-earlier", before, "ours")).status == 409

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_plain_kubernetes_server_checks_no_bind_generation() -> None:
    async def scenario(wire: AsgiClient) -> None:
        before = wire.server.store.revision
        assert (await bind(wire, "one", before, "one")).status == 201
        assert (await bind(wire, "two", before, "two")).status == 201

    with_asgi_client(scenario, garbage_collection=False)


def test_pod_can_be_bound_through_the_bindings_resource() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await wire("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        binding = {"kind": "Binding", "apiVersion": "v1", "metadata": {"name": "p"}, "target": {"name": "n"}}
        assert (await wire("POST", "/api/v1/namespaces/default/bindings", binding)).status == 201
        assert (await wire("GET", f"{PODS}/p")).json()["spec"]["nodeName"] == "n"

    with_asgi_client(scenario)
