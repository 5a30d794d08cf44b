import asyncio
from pathlib import Path

import pytest

from server.asgi import AsgiClient
from trimtab.errors import Forbidden
from trimtab.server.admission.priority_quota import PriorityQuotaCheck
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.store.store import Store

PODS = "/api/v1/namespaces/default/pods"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


def pod(name: str) -> dict[str, object]:
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
