"""A host draws ids for its control plane, and keeps the earlier ones as former ids."""

from runtime.test_observe_only import new_client
from trimtab.clock import run_virtually
from trimtab.controllers.control_plane_identity import ControlPlaneIdentity, identity_of
from trimtab.runtime.control_plane_identity import NAMESPACES, add_former_ids, draw_identity, read_identity


def test_every_id_that_was_drawn_is_new_and_the_earlier_ones_are_taken_over() -> None:
    async def run() -> None:
        client = await new_client()
        uid = (await client.get(NAMESPACES, "", "kube-system"))["metadata"]["uid"]
        assert await read_identity(client) == ControlPlaneIdentity(uid)
        first = await draw_identity(client)
        second = await draw_identity(client, ["another"])
        assert len({uid, first.own, second.own}) == 3
        assert second.former == {uid, first.own, "another"}
        assert await read_identity(client) == second
        assert second.includes("another")
        assert not second.includes("")

    run_virtually(run())


def test_former_ids_of_an_archive_are_added_and_the_own_id_stays() -> None:
    async def run() -> None:
        client = await new_client()
        own = (await read_identity(client)).own
        added = await add_former_ids(client, ["archived", own])
        assert added == ControlPlaneIdentity(own, frozenset({"archived"}))
        assert await add_former_ids(client, []) == added

    run_virtually(run())


def test_empty_annotations_count_as_none() -> None:
    annotations = {"trimtab.dev/control-plane-id": "", "trimtab.dev/former-control-planes": ""}
    assert identity_of("uid", annotations) == ControlPlaneIdentity("uid")
