"""Patch requests."""

from server.asgi import AsgiClient, with_asgi_client
from server.config_maps import CONFIG_MAPS, config_map


def test_apply_conflict_between_managers_is_refused_unless_forced() -> None:
    async def scenario(wire: AsgiClient) -> None:
        apply = {"content_type": "application/apply-patch+yaml"}
        await wire("PATCH", f"{CONFIG_MAPS}/x?fieldManager=one", config_map("x", k="1"), **apply)
        refused = await wire("PATCH", f"{CONFIG_MAPS}/x?fieldManager=two", config_map("x", k="2"), **apply)
        assert refused.status == 409
        assert refused.json()["details"]["causes"][0]["field"] == ".data.k"
        forced = await wire("PATCH", f"{CONFIG_MAPS}/x?fieldManager=two&force=true", config_map("x", k="2"), **apply)
        assert forced.json()["data"] == {"k": "2"}

    with_asgi_client(scenario)
