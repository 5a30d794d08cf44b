"""Non-resource paths: health, version, metrics and the index."""

from server.asgi import AsgiClient, with_asgi_client
from trimtab.errors import StorageFailed, StorageFull


def test_health_lists_its_checks_when_verbose() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("GET", "/readyz")).body == b"ok"
        verbose = (await client("GET", "/readyz?verbose")).body.decode()
        assert "[+]etcd ok\n" in verbose
        assert "[+]poststarthook/start-apiextensions-controllers ok\n" in verbose
        assert verbose.endswith("readyz check passed\n")
        client.server._is_started = False
        assert b"[-]informer-sync failed: not finished" in (await client("GET", "/readyz")).body

    with_asgi_client(scenario)


def test_failed_store_fails_readiness_with_the_reason_and_without_the_path() -> None:
    async def scenario(client: AsgiClient) -> None:
        client.server.store.faults.current = StorageFull("no space left to write /secret/place/store.db")
        assert (await client("GET", "/readyz/etcd")).status == 500
        response = await client("GET", "/readyz")
        assert response.status == 500
        assert b"[-]etcd failed: the data directory cannot be written (its disk is full or fails)" in response.body
        assert b"/secret/place" not in response.body
        assert (await client("GET", "/readyz?exclude=etcd")).status == 200
        client.server.store.faults.current = StorageFailed("read-only")
        assert b"the server log says why" in (await client("GET", "/readyz/etcd")).body

    with_asgi_client(scenario)


def test_failed_store_does_not_fail_liveness_because_a_restart_would_not_help() -> None:
    async def scenario(client: AsgiClient) -> None:
        client.server.store.faults.current = StorageFull("no space left")
        for path in ("/livez", "/healthz", "/livez/etcd", "/livez?verbose"):
            assert (await client("GET", path)).status == 200, path

    with_asgi_client(scenario)


def test_unknown_group_is_plain_text_and_unknown_resource_a_status() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("GET", "/apis/nowhere.io/v1/things")).body == b"404 page not found\n"
        assert (await client("GET", "/apis/apps/v1/things")).json()["reason"] == "NotFound"

    with_asgi_client(scenario)


def test_index_lists_groups_and_metrics_count_requests() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert {"/apis/apps/v1", "/metrics"} <= set((await client("GET", "/")).json()["paths"])
        assert b'apiserver_request_total{verb="GET",code="200"} 1' in (await client("GET", "/metrics")).body

    with_asgi_client(scenario)


def test_write_methods_are_not_allowed() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("POST", "/version", {})).status == 405

    with_asgi_client(scenario)
