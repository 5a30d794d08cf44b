"""The rate history of PodDisruptionBudgets."""

from server.asgi import AsgiClient, with_asgi_client
from server.subresources.test_eviction import PDBS, SELECTOR, evict, pdb, pod
from trimtab.decide.pods.budgets.pod_budgets import RATE_ANNOTATION


def test_replacing_a_pdb_keeps_its_rate_history() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await pod(wire, "web-0")
        await pod(wire, "web-1")
        await pdb(wire, "web", 2, 0, annotations={RATE_ANNOTATION: "1/1h"})
        assert (await evict(wire, "web-0")).status == 201
        version = (await wire("GET", f"{PDBS}/web")).json()["metadata"]["resourceVersion"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "resourceVersion": version, "annotations": {RATE_ANNOTATION: "1/1h"}},
            "spec": {"minAvailable": 0, "selector": SELECTOR},
        }
        assert (await wire("PUT", f"{PDBS}/web", body)).status == 200
        assert (await evict(wire, "web-1")).status == 429

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)
