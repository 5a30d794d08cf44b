"""Admission webhooks may change or refuse a write."""

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from server.admission.webhook_server import RawWebhook, with_raw_webhook
from server.asgi import AsgiClient
from trimtab.server.admission.dynamic import webhooks
from trimtab.server.apiserver import ApiServer
from trimtab.server.auth.certificates import ensure_authority
from trimtab.server.registry import object_preparation
from trimtab.store.store import Store

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


async def review(request: web.Request) -> web.Response:
    """Labels every object, and refuses objects named `bad`."""
    admission_request = (await request.json())["request"]
    response = {"uid": admission_request["uid"], "allowed": admission_request["name"] != "bad"}
    if not response["allowed"]:
        response["status"] = {"code": 403, "message": "it is bad"}
    elif request.path == "/mutate":
        patch = [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        response["warnings"] = ["labelled"]
    return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def configuration(kind: str, url: str, bundle: bytes, **more: object) -> dict:
    webhook = {
        "name": "hook.example.com",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(bundle).decode()},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "hook"}}
    return {**head, "webhooks": [webhook]}


def with_webhook(directory: Path, scenario) -> None:
    """Run `scenario(wire, url, bundle)` with a webhook on a real socket."""

    async def run() -> None:
        authority = ensure_authority(directory, [])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.certificate_and_key("server"))
        app = web.Application()
        app.router.add_post("/{path}", review)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]
        server = ApiServer(Store())
        await server.start()
        try:
            await scenario(AsgiClient(server), f"https://127.0.0.1:{port}", authority.certificate.read_bytes())
        finally:
            await server.stop()
            await runner.cleanup()

    asyncio.run(run())


def test_mutating_webhook_changes_the_stored_object(tmp_path: Path) -> None:
    async def scenario(wire: AsgiClient, url: str, bundle: bytes) -> None:
        hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        body = configuration("MutatingWebhookConfiguration", f"{url}/mutate", bundle)
        assert (await wire("POST", hooks, body)).status == 201
        response = await wire("POST", CONFIG_MAPS, {"metadata": {"name": "x"}})
        assert response.json()["metadata"]["labels"] == {"seen": "yes"}
        assert response.headers["warning"] == '299 - "labelled"'

    with_webhook(tmp_path, scenario)


def test_validating_webhook_refuses_an_object(tmp_path: Path) -> None:
    async def scenario(wire: AsgiClient, url: str, bundle: bytes) -> None:
        hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        body = configuration("ValidatingWebhookConfiguration", f"{url}/validate", bundle)
        assert (await wire("POST", hooks, body)).status == 201
        assert (await wire("POST", CONFIG_MAPS, {"metadata": {"name": "good"}})).status == 201
        refused = await wire("POST", CONFIG_MAPS, {"metadata": {"name": "bad"}})
        assert refused.status == 403
        assert refused.json()["message"] == 'admission webhook "hook.example.com" denied the request: it is bad'

    with_webhook(tmp_path, scenario)


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
def test_failure_policy_decides_when_a_webhook_is_unreachable(tmp_path: Path, policy: str, status: int) -> None:
    async def scenario(wire: AsgiClient, url: str, bundle: bytes) -> None:
        hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        unreachable = configuration(
            "ValidatingWebhookConfiguration", "https://127.0.0.1:9/x", bundle, failurePolicy=policy
        )
        assert (await wire("POST", hooks, unreachable)).status == 201
        assert (await wire("POST", CONFIG_MAPS, {"metadata": {"name": "x"}})).status == status

    with_webhook(tmp_path, scenario)


def test_webhook_is_called_only_while_it_is_configured(tmp_path: Path) -> None:
    async def scenario(wire: AsgiClient, url: str, bundle: bytes) -> None:
        hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        bad = {"metadata": {"name": "bad"}}
        assert (await wire("POST", CONFIG_MAPS, bad)).status == 201
        await wire("DELETE", f"{CONFIG_MAPS}/bad")
        await wire("POST", hooks, configuration("ValidatingWebhookConfiguration", f"{url}/validate", bundle))
        assert (await wire("POST", CONFIG_MAPS, bad)).status == 403
        await wire("DELETE", f"{hooks}/hook")
        assert (await wire("POST", CONFIG_MAPS, bad)).status == 201

    with_webhook(tmp_path, scenario)


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_others_take_turns_while_a_write_is_compared_with_many_webhooks(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(wire: AsgiClient, url: str, bundle: bytes) -> None:
        hooks = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations"
        body = configuration(f"{kind}WebhookConfiguration", url, bundle)
        other = {**body["webhooks"][0], "rules": [{**RULE, "resources": ["secrets"]}]}
        body["webhooks"] = [{**other, "name": f"hook{number}.example.com"} for number in range(450)]
        assert (await wire("POST", hooks, body)).status == 201
        turns: list[float] = []
        sleep = asyncio.sleep

        async def counting(seconds: float, *arguments: Any) -> Any:
            turns.append(seconds)
            return await sleep(seconds, *arguments)

        monkeypatch.setattr(webhooks.asyncio, "sleep", counting)
        assert (await wire("POST", CONFIG_MAPS, {"metadata": {"name": "x"}})).status == 201
        assert turns.count(0) >= 450 // webhooks.COMPARED_PER_TURN

    with_webhook(tmp_path, scenario)


def test_large_patch_of_a_webhook_is_applied_and_checked_outside_of_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                names.append(name)
            return function(*arguments, **options)

        return call

    async def respond(request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        data = {f"k{number}": "v" for number in range(20_000)}
        patch = base64.b64encode(json.dumps([{"op": "add", "path": "/data", "value": data}]).encode()).decode()
        answer = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch}
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()

    async def scenario(hook: RawWebhook) -> None:
        await hook.register("Mutating")
        for module, name in ((webhooks, "apply_json_patch"), (object_preparation, "metadata_causes")):
            monkeypatch.setattr(module, name, noting(name, getattr(module, name)))
        assert len((await hook.create()).json()["data"]) == 20_000
        changed = await hook.client("PATCH", f"{CONFIG_MAPS}/x", b"{}", content_type="application/merge-patch+json")
        assert changed.status == 200

    with_raw_webhook(tmp_path, respond, scenario)
    assert names == []
