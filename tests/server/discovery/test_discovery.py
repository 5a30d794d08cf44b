"""Discovery documents."""

from server.asgi import AsgiClient, with_asgi_client

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_resource_list_contains_subresources() -> None:
    async def scenario(client: AsgiClient) -> None:
        resources = {one["name"]: one for one in (await client("GET", "/apis/apps/v1")).json()["resources"]}
        assert resources["deployments"]["shortNames"] == ["deploy"]
        assert resources["deployments/scale"]["group"] == "autoscaling"

    with_asgi_client(scenario)


def test_aggregated_discovery_is_not_sent_again_when_unchanged() -> None:
    async def scenario(client: AsgiClient) -> None:
        first = await client("GET", "/apis", accept=AGGREGATED)
        assert first.json()["kind"] == "APIGroupDiscoveryList"
        etag = first.headers["etag"]
        assert (await client("GET", "/apis", accept=AGGREGATED, if_none_match=etag)).status == 304

    with_asgi_client(scenario)


def test_removed_resource_disappears_from_discovery() -> None:
    async def scenario(client: AsgiClient) -> None:
        etag = (await client("GET", "/apis", accept=AGGREGATED)).headers["etag"]
        client.server.catalogue.remove("apps", "daemonsets")
        names = [one["name"] for one in (await client("GET", "/apis/apps/v1")).json()["resources"]]
        assert "daemonsets" not in names
        assert (await client("GET", "/apis", accept=AGGREGATED, if_none_match=etag)).status == 200

    with_asgi_client(scenario)
