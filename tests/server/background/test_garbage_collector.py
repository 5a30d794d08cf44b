"""What happens to those who depend on something that is deleted."""

import asyncio

import orjson

from server.asgi import Wire, with_wire

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def make(wire: Wire, name: str, owner: dict | None = None, *, blocks: bool = True, **metadata: object) -> dict:
    body: dict = {"metadata": {"name": name, **metadata}}
    if owner:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"]}
        reference |= {"uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks}
        body["metadata"]["ownerReferences"] = [reference]
    return (await wire("POST", CONFIG_MAPS, body)).json()


async def seen_during(wire: Wire, *acts) -> list[tuple[str, str]]:
    """The events that a watcher sees while these things happen, one after another."""
    version = (await wire("GET", CONFIG_MAPS)).json()["metadata"]["resourceVersion"]
    path = f"{CONFIG_MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=10"
    watching = asyncio.ensure_future(wire("GET", path))
    await asyncio.sleep(0.1)
    for act in acts:
        await act()
        await asyncio.sleep(1)
    events = [orjson.loads(line) for line in (await watching).body.splitlines()]
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def delete(wire: Wire, name: str, policy: str):
    async def act() -> None:
        assert (await wire("DELETE", f"{CONFIG_MAPS}/{name}", {"propagationPolicy": policy})).status == 200

    return act


def test_in_the_background_the_owner_goes_first() -> None:
    async def story(wire: Wire) -> None:
        await make(wire, "child", await make(wire, "owner"))
        seen = await seen_during(wire, delete(wire, "owner", "Background"))
        assert seen == [("DELETED", "owner"), ("DELETED", "child")]

    with_wire(story)


def test_in_the_foreground_the_owner_waits_for_its_dependents() -> None:
    async def story(wire: Wire) -> None:
        owner = await make(wire, "owner")
        child = await make(wire, "child", owner)
        await make(wire, "grandchild", child)
        seen = await seen_during(wire, delete(wire, "owner", "Foreground"))
        assert seen[0] == ("MODIFIED", "owner")
        gone = [name for kind, name in seen if kind == "DELETED"]
        assert gone == ["grandchild", "child", "owner"]

    with_wire(story)


def test_a_dependent_with_a_finalizer_holds_its_owner_back() -> None:
    async def story(wire: Wire) -> None:
        await make(wire, "child", await make(wire, "owner"), finalizers=["example.com/x"])

        async def release() -> None:
            assert (await wire("GET", f"{CONFIG_MAPS}/owner")).status == 200
            patch = [{"op": "remove", "path": "/metadata/finalizers"}]
            await wire("PATCH", f"{CONFIG_MAPS}/child", patch, content_type="application/json-patch+json")

        seen = await seen_during(wire, delete(wire, "owner", "Foreground"), release)
        assert [name for kind, name in seen if kind == "DELETED"] == ["child", "owner"]

    with_wire(story)


def test_orphans_lose_their_owner_and_stay() -> None:
    async def story(wire: Wire) -> None:
        await make(wire, "child", await make(wire, "owner"))
        seen = await seen_during(wire, delete(wire, "owner", "Orphan"))
        assert seen == [("MODIFIED", "owner"), ("MODIFIED", "child"), ("DELETED", "owner")]

    with_wire(story)


def test_a_dependent_of_several_stays_while_one_of_them_is_left() -> None:
    async def story(wire: Wire) -> None:
        first, second = await make(wire, "first"), await make(wire, "second")
        child = await make(wire, "child", first)
        more = {"apiVersion": "v1", "kind": "ConfigMap", "name": "second", "uid": second["metadata"]["uid"]}
        child["metadata"]["ownerReferences"].append(more)
        await wire("PUT", f"{CONFIG_MAPS}/child", child)
        seen = await seen_during(wire, delete(wire, "first", "Background"), delete(wire, "second", "Background"))
        assert seen == [("DELETED", "first"), ("DELETED", "second"), ("DELETED", "child")]

    with_wire(story)


def test_a_dependent_of_somebody_who_never_was_goes_too() -> None:
    async def story(wire: Wire) -> None:
        await make(wire, "child", {"metadata": {"name": "ghost", "uid": "never-was"}})
        await asyncio.sleep(2)
        assert (await wire("GET", f"{CONFIG_MAPS}/child")).status == 404

    with_wire(story)


def test_a_dependent_of_a_kind_that_is_not_served_stays() -> None:
    async def story(wire: Wire) -> None:
        owner = {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "r", "uid": "r"}
        body = {"metadata": {"name": "child", "ownerReferences": [owner]}}
        assert (await wire("POST", CONFIG_MAPS, body)).status == 201
        await asyncio.sleep(2)
        assert (await wire("GET", f"{CONFIG_MAPS}/child")).status == 200

    with_wire(story)
