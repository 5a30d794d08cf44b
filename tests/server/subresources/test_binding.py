from server.asgi import Wire, with_wire
from trimtab.server.subresources.binding import BINDER, SEEN

PODS = "/api/v1/namespaces/default/pods"


async def bind(wire: Wire, name: str, seen: int | None = None, binder: str = "", node: str = "a"):
    pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
    assert (await wire("POST", PODS, pod)).status == 201
    noted = {SEEN: str(seen), BINDER: binder} if seen is not None else {}
    body = {"metadata": {"name": name, "annotations": noted}, "target": {"kind": "Node", "name": node}}
    return await wire("POST", f"{PODS}/{name}/binding", body)


async def revision_of(wire: Wire, name: str) -> int:
    return int((await wire("GET", f"{PODS}/{name}")).json()["metadata"]["resourceVersion"])


def test_a_node_that_somebody_else_bound_to_since_it_was_chosen_is_chosen_anew() -> None:
    async def story(wire: Wire) -> None:
        before = wire.server.store.revision
        assert (await bind(wire, "other", before, "other")).status == 201
        late = await bind(wire, "late", before, "ours")
        assert late.status == 409
        assert "another pod was bound to node a since it was chosen" in late.json()["message"]
        assert "nodeName" not in (await wire("GET", f"{PODS}/late")).json()["spec"]
        assert (await bind(wire, "elsewhere", before, "ours", node="b")).status == 201
        assert (await bind(wire, "informed", await revision_of(wire, "other"), "ours")).status == 201

    with_wire(story, several_budgets=True, collects=False)


def test_a_scheduler_does_not_stand_in_its_own_way_and_others_do_even_afterwards() -> None:
    async def story(wire: Wire) -> None:
        before = wire.server.store.revision
        assert (await bind(wire, "first", before, "ours")).status == 201
        assert (await bind(wire, "second", before, "ours")).status == 201
        assert (await bind(wire, "stranger")).status == 201
        informed = await revision_of(wire, "stranger")
        assert (await bind(wire, "third", informed, "ours")).status == 201
        assert (await bind(wire, "decided-long-ago", before, "ours")).status == 409

    with_wire(story, several_budgets=True, collects=False)


def test_a_plain_kubernetes_server_asks_for_no_generation() -> None:
    async def story(wire: Wire) -> None:
        before = wire.server.store.revision
        assert (await bind(wire, "one", before, "one")).status == 201
        assert (await bind(wire, "two", before, "two")).status == 201

    with_wire(story, collects=False)
