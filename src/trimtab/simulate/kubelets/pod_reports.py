"""Writes of simulated kubelets about pods: their status, and their deletion when their containers have ended."""

import contextlib
from collections.abc import Iterable

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.errors import NotFound
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.simulate.containers.environment import ConfigReference, PodConfig, TokenReference, token_references
from trimtab.simulate.kubelets.node_status import FIELD_MANAGER

PODS = Resource("", "v1", "pods", "Pod")
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
SERVICES = Resource("", "v1", "services", "Service")
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
CONFIG_KINDS = {
    "ConfigMap": Resource("", "v1", "configmaps", "ConfigMap"),
    "Secret": Resource("", "v1", "secrets", "Secret"),
}


class PodReports:
    """Writes pod status and puts the result into the cache, so that the next sync sees it."""

    def __init__(self, cache: Cache, client: Client) -> None:
        self._cache, self._client = cache, client

    async def report(self, entry: CacheEntry, status: Raw) -> None:
        """Write the status, unless the API server has it already."""
        present = entry.raw.get("status") or {}
        if not all(_equals_ignoring_empty(present.get(field), value) for field, value in status.items()):
            await self.write(entry, status)

    async def write(self, entry: CacheEntry, status: Raw) -> None:
        metadata = {"uid": entry.raw["metadata"]["uid"], "resourceVersion": entry.revision}
        written = await self._client.patch(
            PODS, *entry.name, {"metadata": metadata, "status": status}, subresource="status", manager=FIELD_MANAGER
        )
        self._cache.table(PODS).put(written)

    async def read_config(self, pod: Raw, references: Iterable[ConfigReference]) -> PodConfig:
        """The ConfigMaps, Secrets and tokens of a pod, and the Services that its environment names."""
        namespace = pod["metadata"]["namespace"]
        objects: dict[ConfigReference, Raw | None] = {}
        for reference in references:
            try:
                objects[reference] = await self._client.get(CONFIG_KINDS[reference.kind], namespace, reference.name)
            except NotFound:
                objects[reference] = None
        services = list((await self._client.list(SERVICES, namespace)).items)
        if namespace != "default":
            services += await self._read_api_server_service()
        return PodConfig(objects, tuple(services), await self._request_tokens(pod))

    async def read_runtime_handler(self, name: str) -> str:
        """The handler of a RuntimeClass; raises NotFound."""
        return str((await self._client.get(RUNTIME_CLASSES, "", name))["handler"])

    async def _request_tokens(self, pod: Raw) -> dict[TokenReference, str]:
        """The tokens of the pod's account for its volumes; without the account there are none."""
        account = pod["spec"].get("serviceAccountName") or "default"
        bound = {key: pod["metadata"][key] for key in ("name", "uid")}
        found: dict[TokenReference, str] = {}
        for wanted in sorted(token_references(pod["spec"])):
            spec: Raw = {"expirationSeconds": wanted.seconds}
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", **bound}
            if wanted.audience:
                spec["audiences"] = [wanted.audience]
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            with contextlib.suppress(NotFound):
                answer = await self._client.submit(ACCOUNTS, pod["metadata"]["namespace"], account, "token", body)
                found[wanted] = answer["status"]["token"]
        return found

    async def _read_api_server_service(self) -> list[Raw]:
        try:
            return [await self._client.get(SERVICES, "default", "kubernetes")]
        except NotFound:
            return []

    async def delete(self, entry: CacheEntry, uid: str) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(PODS, *entry.name, uid=uid, grace_seconds=0)


def _equals_ignoring_empty(present: object, wanted: object) -> bool:
    """Whether the values are equal; an API server omits null and empty values."""
    if isinstance(wanted, dict):
        fields = present if isinstance(present, dict) else {}
        return all(_equals_ignoring_empty(fields.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        items = present if isinstance(present, list) else []
        return len(items) == len(wanted) and all(map(_equals_ignoring_empty, items, wanted))
    return present == wanted or (not present and not wanted)
