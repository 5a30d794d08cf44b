"""Quotas for objects other than pods: enforced when they are written, and reported in the status of the quota."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from server.asgi import AsgiClient
from trimtab.server.admission.object_quotas import ObjectQuotaCheck
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.store.store import Store

SPACE = "/api/v1/namespaces/default"
QUOTAS, SERVICES, SECRETS = (f"{SPACE}/{name}" for name in ("resourcequotas", "services", "secrets"))
CLAIMS = f"{SPACE}/persistentvolumeclaims"


def run_with_quota(hard: dict[str, str], scenario: Callable[[AsgiClient], Awaitable[None]]) -> None:
    async def run() -> None:
        settings = ApiServerSettings(store_plugins=(ObjectQuotaCheck,), object_quota_status=True)
        server = ApiServer(Store(), settings)
        await server.start()
        wire = AsgiClient(server)
        created = await wire("POST", QUOTAS, {"metadata": {"name": "few"}, "spec": {"hard": hard}})
        assert created.status == 201, created.json()
        try:
            await scenario(wire)
        finally:
            await server.stop()

    asyncio.run(run())


def service(name: str, type_: str = "ClusterIP") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"type": type_, "ports": [{"port": 80}]}}


async def used(wire: AsgiClient) -> dict[str, str]:
    await asyncio.sleep(0.05)
    return (await wire("GET", f"{QUOTAS}/few")).json()["status"]["used"]


def test_last_object_of_a_quota_is_the_last_one_admitted() -> None:
    async def scenario(wire: AsgiClient) -> None:
        answers = await asyncio.gather(*(wire("POST", SECRETS, {"metadata": {"name": f"s{n}"}}) for n in range(5)))
        assert sorted(answer.status for answer in answers) == [201, 201, 403, 403, 403]
        refused = next(answer for answer in answers if answer.status == 403)
        assert (
            "exceeded quota: few, requested: secrets=1, used: secrets=2, limited: secrets=2"
            in refused.json()["message"]
        )
        assert await used(wire) == {"secrets": "2", "count/deployments.apps": "0"}
        await wire("DELETE", f"{SECRETS}/{next(a for a in answers if a.status == 201).json()['metadata']['name']}")
        assert (await used(wire))["secrets"] == "1"

    run_with_quota({"secrets": "2", "count/deployments.apps": "1"}, scenario)


def test_update_that_uses_more_is_checked() -> None:
    async def scenario(wire: AsgiClient) -> None:
        assert (await wire("POST", SERVICES, service("a", "NodePort"))).status == 201
        assert (await wire("POST", SERVICES, service("b"))).status == 201
        patch = {"spec": {"type": "NodePort"}}
        merge = "application/merge-patch+json"
        assert (await wire("PATCH", f"{SERVICES}/b", patch, content_type=merge)).status == 403
        assert (
            await wire("PATCH", f"{SERVICES}/a", {"metadata": {"labels": {"x": "y"}}}, content_type=merge)
        ).status == 200
        assert await used(wire) == {"services.nodeports": "1", "services": "2"}

    run_with_quota({"services.nodeports": "1", "services": "2"}, scenario)


def test_other_namespaces_and_dry_runs_use_nothing() -> None:
    async def scenario(wire: AsgiClient) -> None:
        assert (await wire("POST", f"{SECRETS}?dryRun=All", {"metadata": {"name": "a"}})).status == 403
        assert (await wire("POST", "/api/v1/namespaces/kube-system/secrets", {"metadata": {"name": "a"}})).status == 201

    run_with_quota({"secrets": "0"}, scenario)


def claim(name: str, storage: str) -> dict[str, Any]:
    resources = {"requests": {"storage": storage}}
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}}


def test_storage_of_all_claims_counts() -> None:
    async def scenario(wire: AsgiClient) -> None:
        assert (await wire("POST", CLAIMS, claim("a", "2Gi"))).status == 201
        assert (await wire("POST", CLAIMS, claim("b", "2Gi"))).status == 403
        assert (await wire("POST", CLAIMS, claim("c", "1Gi"))).status == 201

    run_with_quota({"requests.storage": "3Gi"}, scenario)
