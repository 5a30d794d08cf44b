"""The stored objects of flow control: created, restored, reported."""

import asyncio
from typing import Any

from server.asgi import AsgiClient, with_asgi_client
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.server.flowcontrol.controller import FlowLimits
from trimtab.store.store import Store

API = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMAS, LEVELS = f"{API}/flowschemas", f"{API}/prioritylevelconfigurations"
ANN = User("ann", (AUTHENTICATED,))


def with_flow_control(scenario: Any) -> None:
    async def run() -> None:
        settings = ApiServerSettings(clock=LoopClock(), flow_control=FlowLimits())
        server = ApiServer(Store(), settings)
        await server.start()
        try:
            await scenario(AsgiClient(server))
        finally:
            await server.stop()

    run_virtually(run())


def test_new_server_has_the_objects_of_kubernetes() -> None:
    async def scenario(client: AsgiClient) -> None:
        await asyncio.sleep(1)
        levels = {item["metadata"]["name"] for item in (await client("GET", LEVELS)).json()["items"]}
        assert levels == {
            "catch-all",
            "exempt",
            "global-default",
            "leader-election",
            "node-high",
            "system",
            "workload-high",
            "workload-low",
        }
        schemas = (await client("GET", SCHEMAS)).json()["items"]
        assert len(schemas) == 13
        for schema in schemas:
            (condition,) = schema["status"]["conditions"]
            assert (condition["type"], condition["status"], condition["reason"]) == ("Dangling", "False", "Found")

    with_flow_control(scenario)


def test_deleted_mandatory_objects_are_restored_and_others_are_not() -> None:
    async def scenario(client: AsgiClient) -> None:
        for path in (f"{SCHEMAS}/exempt", f"{LEVELS}/catch-all", f"{SCHEMAS}/probes"):
            assert (await client("DELETE", path)).status == 200
        await asyncio.sleep(1)
        assert (await client("GET", f"{SCHEMAS}/exempt")).status == 200
        assert (await client("GET", f"{LEVELS}/catch-all")).status == 200
        assert (await client("GET", f"{SCHEMAS}/probes")).status == 404

    with_flow_control(scenario)


def test_schema_of_a_missing_level_is_dangling() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("DELETE", f"{LEVELS}/system")).status == 200
        await asyncio.sleep(1)
        schema = (await client("GET", f"{SCHEMAS}/system-nodes")).json()
        assert [one["status"] for one in schema["status"]["conditions"]] == ["True"]

    with_flow_control(scenario)


def test_edits_take_effect_and_responses_name_the_objects() -> None:
    async def scenario(client: AsgiClient) -> None:
        level = (await client("GET", f"{LEVELS}/workload-low")).json()["metadata"]["uid"]
        patch = {"spec": {"priorityLevelConfiguration": {"name": "workload-low"}}}
        patched = await client("PATCH", f"{SCHEMAS}/global-default", patch, content_type="application/merge-patch+json")
        assert patched.status == 200
        response = await client("GET", "/version", user=ANN)
        assert response.headers["x-kubernetes-pf-prioritylevel-uid"] == level
        assert response.headers["x-kubernetes-pf-flowschema-uid"] == patched.json()["metadata"]["uid"]

    with_flow_control(scenario)


def test_spec_of_a_mandatory_object_cannot_change() -> None:
    async def scenario(client: AsgiClient) -> None:
        patch = {"spec": {"limited": {"nominalConcurrencyShares": 500}}}
        refused = await client("PATCH", f"{LEVELS}/catch-all", patch, content_type="application/merge-patch+json")
        assert refused.status == 422
        assert "must equal the fixed value" in refused.json()["message"]

    with_flow_control(scenario)


def test_server_without_flow_control_does_not_serve_its_kinds() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("GET", SCHEMAS)).status == 404
        assert "flowcontrol" not in (await client("GET", "/apis")).body.decode()

    with_asgi_client(scenario)
