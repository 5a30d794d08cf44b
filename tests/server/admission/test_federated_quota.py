"""Placements that somebody writes into a binding are within the quotas of the namespace."""

import asyncio
from typing import Any

from server.asgi import AsgiClient
from trimtab.errors import Forbidden
from trimtab.runtime.declarations import load_declarations
from trimtab.server.admission.federated_quota import FederatedQuotaCheck
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.store.store import Store

load_declarations()
BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
QUOTAS = "/apis/policy.karmada.io/v1alpha1/namespaces/default/federatedresourcequotas"


def binding(name: str, replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": name},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name},
            "replicaRequirements": {"resourceRequest": {"cpu": "100m"}},
            "clusters": [{"name": "m1", "replicas": replicas}] if replicas else [],
        },
    }


def quota(cpu: str) -> dict[str, Any]:
    head = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota", "metadata": {"name": "few"}}
    return {**head, "spec": {"overall": {"cpu": cpu}}}


async def statuses_of(*requests: tuple[str, str, dict[str, Any]]) -> list[tuple[int, str]]:
    """Status and message of each request, with a quota of 500m."""
    server = ApiServer(Store(), ApiServerSettings(garbage_collection=False, store_plugins=(FederatedQuotaCheck,)))
    await server.start()
    wire = AsgiClient(server)
    try:
        assert (await wire("POST", QUOTAS, quota("500m"))).status == 201
        media = {"content_type": "application/merge-patch+json"}
        responses = [
            await wire(method, path, body, **(media if method == "PATCH" else {})) for method, path, body in requests
        ]
        return [(one.status, one.json().get("message", "")) for one in responses]
    finally:
        await server.stop()


def test_binding_beyond_the_quota_is_refused_at_creation_and_at_update() -> None:
    found = asyncio.run(
        statuses_of(
            ("POST", BINDINGS, binding("a", 4)),
            ("POST", BINDINGS, binding("b", 2)),
            ("POST", BINDINGS, binding("c", 0)),
            ("PATCH", f"{BINDINGS}/c", binding("c", 1)),
            ("PATCH", f"{BINDINGS}/c", binding("c", 2)),
            ("PATCH", f"{BINDINGS}/a?dryRun=All", binding("a", 5)),
        )
    )
    assert [status for status, _ in found] == [201, Forbidden.code, 201, 200, Forbidden.code, Forbidden.code]
    assert found[1][1] == (
        'admission webhook "resourcebinding.karmada.io" denied the request: '
        "FederatedResourceQuota(default/few) exceeded for resource cpu: requested sum 600m, limit 500m."
    )


def test_binding_that_shrinks_is_admitted_although_the_quota_was_reduced() -> None:
    found = asyncio.run(
        statuses_of(
            ("POST", BINDINGS, binding("a", 4)),
            ("PATCH", f"{QUOTAS}/few", quota("100m")),
            ("PATCH", f"{BINDINGS}/a", binding("a", 3)),
            ("PATCH", f"{BINDINGS}/a", binding("a", 4)),
        )
    )
    assert [status for status, _ in found] == [201, 200, 200, Forbidden.code]
