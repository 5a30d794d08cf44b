"""Preconditions of deletions."""

from server.asgi import AsgiClient, with_asgi_client

MAPS = "/api/v1/namespaces/default/configmaps"


def test_deletion_with_another_uid_or_version_is_a_conflict() -> None:
    async def scenario(client: AsgiClient) -> None:
        created = (await client("POST", MAPS, {"metadata": {"name": "a"}})).json()["metadata"]
        for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
            refused = await client("DELETE", f"{MAPS}/a", {"preconditions": wrong})
            assert (refused.status, refused.json()["reason"]) == (409, "Conflict")
        assert (await client("GET", f"{MAPS}/a")).status == 200
        right = {"uid": created["uid"], "resourceVersion": created["resourceVersion"]}
        assert (await client("DELETE", f"{MAPS}/a", {"preconditions": right})).status == 200
        assert (await client("GET", f"{MAPS}/a")).status == 404

    with_asgi_client(scenario)
