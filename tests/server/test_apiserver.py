"""Assembly, bootstrap and background tasks of the API server."""

import asyncio

from server.asgi import AsgiClient, with_asgi_client
from trimtab.clock import LoopClock, run_virtually, timestamp
from trimtab.errors import StorageFull
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.store.store import Store
from trimtab.store.txn import Proposal, TransactionResult
from trimtab.telemetry import Sample

EVENTS = "/api/v1/namespaces/default/events"


def event(name: str, seen: str) -> dict:
    involved = {"kind": "Pod", "namespace": "default", "name": "p"}
    metadata = {"name": name, "namespace": "default"}
    return {"metadata": metadata, "involvedObject": involved, "lastTimestamp": seen, "reason": "Test"}


def test_start_writes_bootstrap_objects_and_crds() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("GET", "/api/v1/namespaces/default")).status == 200
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await client("GET", f"{crds}/works.work.karmada.io")).status == 200

    with_asgi_client(scenario)


def test_kind_that_is_not_selected_is_not_served() -> None:
    server = ApiServer(Store(), ApiServerSettings(serves=lambda kind: kind.group != "apps"))
    assert server.catalogue.find("apps", "v1", "deployments") is None
    assert server.catalogue.find("", "v1", "pods") is not None
    assert server.catalogue.find("metrics.k8s.io", "v1beta1", "pods") is None


def test_metrics_contain_samples_of_the_embedding_program() -> None:
    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        server.add_metrics(lambda: [Sample("trimtab_test_total", 5)])
        assert b"trimtab_test_total 5" in (await AsgiClient(server)("GET", "/metrics")).body
        await server.stop()

    run_virtually(run())


class FillableStore(Store):
    """A store in memory that refuses writes while it is full."""

    is_full = False
    refused = 0

    async def transact(self, propose: Proposal) -> TransactionResult:
        if self.is_full:
            self.refused += 1
            self.faults.current = StorageFull("no space left", retry_after=15)
            raise self.faults.current
        self.faults.current = None
        return await super().transact(propose)


def test_server_starts_without_room_and_creates_what_is_missing_later() -> None:
    async def run() -> None:
        store = FillableStore()
        store.is_full = True
        server = ApiServer(store, ApiServerSettings(clock=LoopClock()))
        await server.start()
        client = AsgiClient(server)
        assert (await client("GET", "/api/v1/namespaces/default")).status == 404
        refusal = await client("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        assert (refusal.status, refusal.json()["reason"]) == (507, "StorageFull")
        assert "retry-after" not in refusal.headers  # kubectl would wait silently instead of showing the message
        store.is_full = False
        await asyncio.sleep(60)
        assert (await client("GET", "/api/v1/namespaces/default")).status == 200
        assert (await client("GET", "/readyz")).status == 200
        await server.stop()

    run_virtually(run())


def test_background_tasks_survive_a_full_store_and_do_not_write_meanwhile() -> None:
    async def run() -> None:
        store = FillableStore()
        server = ApiServer(store, ApiServerSettings(clock=LoopClock()))
        await server.start()
        client = AsgiClient(server)
        maps = "/api/v1/namespaces/default/configmaps"
        owner = (await client("POST", maps, {"metadata": {"name": "owner"}})).json()
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        await client("POST", maps, {"metadata": {"name": "child", "ownerReferences": [reference]}})
        now = server.resource_store.clock.now()
        await client("POST", EVENTS, event("old", timestamp(now)))
        await client("DELETE", f"{maps}/owner")
        store.is_full = True
        await asyncio.sleep(2 * 3600)
        assert store.refused < 100
        assert (await client("GET", f"{maps}/child")).status == 200
        store.is_full, store.faults.current = False, None
        await asyncio.sleep(700)
        assert (await client("GET", f"{maps}/child")).status == 404
        assert (await client("GET", EVENTS)).json()["items"] == []
        await server.stop()

    run_virtually(run())
