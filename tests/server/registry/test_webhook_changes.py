"""What an admission webhook may change, and what keeps its value."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from server.admission.webhook_server import CONFIG_MAPS, RawWebhook, http_answer, review, with_raw_webhook

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
DEPLOYMENT = {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": POD}}
RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps", "deployments", "deployments/status"]}
Scenario = Callable[[RawWebhook, list[dict]], Awaitable[None]]


def with_patches(directory: Path, scenario: Scenario, *operations: str) -> None:
    """Run `scenario(webhook, patch)`: the webhook allows everything and sends the JSON patch in `patch`."""
    patch: list[dict] = []

    async def respond(request: dict, writer: asyncio.StreamWriter) -> None:
        answer: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        if patch:
            text = base64.b64encode(json.dumps(patch).encode()).decode()
            answer |= {"patch": text, "patchType": "JSONPatch"}
        writer.write(http_answer(review(answer)))
        await writer.drain()

    async def run(webhook: RawWebhook) -> None:
        await webhook.client("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        await webhook.register("Mutating", rules=[{**RULE, "operations": list(operations or ("CREATE", "UPDATE"))}])
        await scenario(webhook, patch)

    with_raw_webhook(directory, respond, run)


def replace(path: str, value: object) -> dict:
    return {"op": "add", "path": path, "value": value}


def test_webhook_may_not_move_a_new_object(tmp_path: Path) -> None:
    async def scenario(webhook: RawWebhook, patch: list[dict]) -> None:
        for change in (
            replace("/metadata/namespace", "other"),
            replace("/metadata/namespace", ["other"]),
            replace("/metadata/name", "y"),
            replace("/metadata/name", {"a": 1}),
            {"op": "remove", "path": "/metadata/name"},
        ):
            patch[:] = [change]
            refused = await webhook.create()
            assert refused.status == 400, (change, refused.body)
            assert "does not match the" in refused.json()["message"]
        found = (await webhook.client("GET", "/api/v1/configmaps")).json()["items"]
        assert found == []
        patch[:] = [{"op": "remove", "path": "/metadata/namespace"}]
        created = await webhook.create()
        assert created.json()["metadata"]["namespace"] == "default"

    with_patches(tmp_path, scenario)


def test_webhook_may_not_move_an_existing_object(tmp_path: Path) -> None:
    async def scenario(webhook: RawWebhook, patch: list[dict]) -> None:
        assert (await webhook.create()).status == 201
        for field in ("namespace", "name"):
            patch[:] = [replace(f"/metadata/{field}", "other")]
            body = {"data": {"a": "b"}}
            headers = {"content_type": "application/merge-patch+json"}
            refused = await webhook.client("PATCH", f"{CONFIG_MAPS}/x", body, **headers)
            assert refused.status == 422
            assert refused.json()["details"]["causes"][0]["field"] == f"metadata.{field}"
        assert "data" not in (await webhook.client("GET", f"{CONFIG_MAPS}/x")).json()

    with_patches(tmp_path, scenario)


def test_fields_of_the_server_keep_their_values(tmp_path: Path) -> None:
    async def scenario(webhook: RawWebhook, patch: list[dict]) -> None:
        patch[:] = [
            replace("/metadata/uid", "forged"),
            replace("/metadata/creationTimestamp", "1999-01-01T00:00:00Z"),
            replace("/metadata/deletionTimestamp", "1999-01-01T00:00:00Z"),
            replace("/metadata/generation", 77),
            replace("/metadata/resourceVersion", "1"),
            replace("/metadata/managedFields", []),
            replace("/status", {"replicas": 5}),
        ]
        created = await webhook.client("POST", DEPLOYMENTS, DEPLOYMENT)
        assert created.status == 201
        found = (await webhook.client("GET", f"{DEPLOYMENTS}/x")).json()
        metadata = found["metadata"]
        assert metadata["uid"] != "forged"
        assert metadata["creationTimestamp"] > "2000"
        assert "deletionTimestamp" not in metadata
        assert metadata["generation"] == 1
        assert metadata["managedFields"]
        assert "replicas" not in found["status"]
        changed = await webhook.client(
            "PATCH", f"{DEPLOYMENTS}/x", {"spec": {"replicas": 3}}, content_type="application/merge-patch+json"
        )
        assert changed.status == 200
        after = changed.json()
        assert {key: after["metadata"][key] for key in ("uid", "creationTimestamp")} == {
            key: metadata[key] for key in ("uid", "creationTimestamp")
        }
        assert after["metadata"]["generation"] == 2
        assert "replicas" not in after["status"]

    with_patches(tmp_path, scenario)


def test_webhook_that_changes_the_spec_causes_a_generation(tmp_path: Path) -> None:
    async def scenario(webhook: RawWebhook, patch: list[dict]) -> None:
        await webhook.client("POST", DEPLOYMENTS, DEPLOYMENT)
        patch[:] = [replace("/spec/replicas", 9)]
        body = {"metadata": {"labels": {"a": "b"}}}
        changed = await webhook.client("PATCH", f"{DEPLOYMENTS}/x", body, content_type="application/merge-patch+json")
        assert changed.json()["spec"]["replicas"] == 9
        assert changed.json()["metadata"]["generation"] == 2

    with_patches(tmp_path, scenario)


def test_webhook_of_a_status_changes_the_status_only(tmp_path: Path) -> None:
    async def scenario(webhook: RawWebhook, patch: list[dict]) -> None:
        await webhook.client("POST", DEPLOYMENTS, DEPLOYMENT)
        patch[:] = [replace("/spec/replicas", 9), replace("/status/observedGeneration", 4)]
        changed = await webhook.client(
            "PATCH", f"{DEPLOYMENTS}/x/status", {"status": {"replicas": 1}}, content_type="application/merge-patch+json"
        )
        assert changed.json()["spec"]["replicas"] == 1
        assert changed.json()["status"]["observedGeneration"] == 4

    with_patches(tmp_path, scenario)


def deep(levels: int) -> dict:
    value: dict = {}
    for _ in range(levels):
        value = {"a": value}
    return value


NO_OBJECTS: list[Any] = [
    [replace("/metadata/labels", "x")],
    [replace("/metadata/labels", {"a": 1})],
    [replace("/metadata/annotations", [1])],
    [replace("/metadata/finalizers", {"a": "b"})],
    [replace("/metadata/ownerReferences", "x")],
    [replace("/metadata", 5)],
    [replace("/data", 5)],
    [replace("/data", {"a": {"b": "c"}})],
    [replace("/data", deep(400))],
    [replace("/data", deep(10)), replace("/data/" + "a/" * 900 + "b", 1)],
    [replace("/kind", "Secret")],
    [replace("/kind", None)],
    [replace("/apiVersion", "v2")],
    [{"op": "remove", "path": "/metadata"}],
    [replace("", {"apiVersion": "v1"})],
    [{"op": "test", "path": "/metadata/name", "value": "y"}],
    [{"op": "fly", "path": "/x"}],
    [{"op": "add"}],
    [1],
    {"data": {}},
    "x",
]


@pytest.mark.parametrize("number", range(len(NO_OBJECTS)))
def test_patch_that_leaves_no_valid_object_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    async def respond(request: dict, writer: asyncio.StreamWriter) -> None:
        text = base64.b64encode(json.dumps(NO_OBJECTS[number]).encode()).decode()
        answer = {"uid": request["uid"], "allowed": True, "patch": text, "patchType": "JSONPatch"}
        writer.write(http_answer(review(answer)))
        await writer.drain()

    async def scenario(webhook: RawWebhook) -> None:
        await webhook.register("Mutating", failurePolicy="Ignore")
        refused = await webhook.create()
        assert refused.status in {422, 500}
        assert "webhook" in refused.json()["message"]
        assert not await webhook.exists()

    with_raw_webhook(tmp_path, respond, scenario)
    assert not [record for record in caplog.records if record.exc_info]


def test_mutating_webhook_may_refuse_a_deletion_but_not_change_it(tmp_path: Path) -> None:
    async def scenario(webhook: RawWebhook, patch: list[dict]) -> None:
        assert (await webhook.create()).status == 201
        patch[:] = [replace("/data", {"a": "b"})]
        refused = await webhook.client("DELETE", f"{CONFIG_MAPS}/x")
        assert refused.status == 500
        assert "attempted to modify the object" in refused.json()["message"]
        assert await webhook.exists()
        patch.clear()
        assert (await webhook.client("DELETE", f"{CONFIG_MAPS}/x")).status == 200

    with_patches(tmp_path, scenario, "DELETE")
