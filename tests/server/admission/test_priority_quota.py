import asyncio
from pathlib import Path
from typing import Any

import pytest

from server.asgi import AsgiClient
from trimtab.errors import Forbidden
from trimtab.server.admission.priority_quota import PriorityQuotaCheck
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.store.store import Store

PODS = "/api/v1/namespaces/default/pods"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "c"}]}}


@pytest.mark.parametrize("on_disk", [False, True])
def test_concurrent_pods_never_exceed_the_quota(on_disk: bool, tmp_path: Path) -> None:
    async def scenario() -> tuple[list[int], int]:
        store = Store.open(tmp_path) if on_disk else Store()
        server = ApiServer(store, ApiServerSettings(garbage_collection=False, store_plugins=(PriorityQuotaCheck,)))
        await server.start()
        wire = AsgiClient(server)
        assert (
            await wire("POST", QUOTAS, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "3"}}})
        ).status == 201
        try:
            responses = await asyncio.gather(*(wire("POST", PODS, pod(f"p{number}")) for number in range(20)))
            dry = await wire("POST", f"{PODS}?dryRun=All", pod("dry"))
            assert dry.status == Forbidden.code
            assert "exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3" in dry.json()["message"]
            return sorted(response.status for response in responses), store.count("/registry/core/pods/")
        finally:
            await server.stop()

    assert asyncio.run(scenario()) == ([201] * 3 + [403] * 17, 3)


def test_limited_priority_needs_a_quota_that_names_it() -> None:
    async def scenario() -> list[int]:
        server = ApiServer(Store(), ApiServerSettings(garbage_collection=False, store_plugins=(PriorityQuotaCheck,)))
        await server.start()
        wire = AsgiClient(server)
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        assert (await wire("POST", classes, {"metadata": {"name": "high"}, "value": 1000})).status == 201
        policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
        policy["spec"] = {"limitedPriorities": ["high"]}
        assert (await wire("POST", "/apis/trimtab.dev/v1alpha1/disruptionpolicies", policy)).status == 201
        scope = {"operator": "In", "scopeName": "PriorityClass", "values": ["high"]}
        spec = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [scope]}}
        try:
            urgent = pod("urgent")
            urgent["spec"]["priorityClassName"] = "high"
            statuses = [(await wire("POST", PODS, urgent)).status, (await wire("POST", PODS, pod("usual"))).status]
            assert (await wire("POST", QUOTAS, {"metadata": {"name": "few"}, "spec": spec})).status == 201
            return [*statuses, (await wire("POST", PODS, urgent)).status]
        finally:
            await server.stop()

    assert asyncio.run(scenario()) == [403, 201, 201]
