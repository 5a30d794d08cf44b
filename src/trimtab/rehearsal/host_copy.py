"""Copies the objects of an API server into one in memory, with their uids, so that controllers continue as after a restart."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import Clock
from trimtab.errors import ApiError, Forbidden, MethodNotAllowed, NotFound
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.server.storage.uids import random_uid
from trimtab.store.store import Store

DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
NOT_COPIED = frozenset(
    (
        "events",
        "events.events.k8s.io",
        "pods",
        "nodes",
        "replicasets.apps",
        "controllerrevisions.apps",
        "endpoints",
        "endpointslices.discovery.k8s.io",
        "apiservices.apiregistration.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        DEFINITIONS.id,
    )
)
"""What belongs to the cluster itself: no controller of the fleet reads it, and the copy must call nobody."""
SERVED_SECONDS = 20.0


class CopiedHost(NamedTuple):
    """The copy, and what of the host is not in it."""

    server: ApiServer
    objects: tuple[Raw, ...]
    left_out: tuple[str, ...]

    def secret(self, namespace: str, name: str) -> Raw | None:
        """A Secret as it was copied."""
        for raw in self.objects:
            metadata = raw["metadata"]
            if raw["kind"] == "Secret" and (metadata.get("namespace"), metadata["name"]) == (namespace, name):
                return raw
        return None


async def copy_host(host: Client, clock: Clock) -> CopiedHost:
    """Copy every object that controllers read. The copy runs; the caller stops it."""
    server = ApiServer(
        Store(), ApiServerSettings(clock=clock, plugins=[PeerWebhooks(random_uid)], token_key=b"copy" * 8)
    )
    await server.start()
    try:
        objects, left_out = await _list_all(host)
        left_out += await _serve_custom_kinds(server, (await host.list(DEFINITIONS)).items)
        unknown = {f"{raw['kind']}.{raw['apiVersion']}" for raw in await server.load(objects)}
        return CopiedHost(server, tuple(objects), tuple(sorted({*left_out, *unknown})))
    except BaseException:
        await server.stop()
        raise


async def _list_all(host: Client) -> tuple[list[Raw], list[str]]:
    objects: list[Raw] = []
    refused: list[str] = []
    for resource in await host.resources():
        if "list" not in resource.verbs or resource.id in NOT_COPIED:
            continue
        try:
            listed = (await host.list(resource)).items
        except (NotFound, MethodNotAllowed):
            continue
        except (Forbidden, ApiError):
            refused.append(resource.id)
            continue
        objects += [{"apiVersion": resource.api_version, "kind": resource.kind, **raw} for raw in listed]
    return objects, refused


async def _serve_custom_kinds(server: ApiServer, definitions: Iterable[Raw]) -> list[str]:
    """Serve the kinds of users; those of Trimtab are served anyway."""
    client, added, refused = LocalClient(server), [], []
    for definition in definitions:
        spec = definition["spec"]
        version = next((one["name"] for one in spec["versions"] if one.get("storage")), "")
        kind = (f"{spec['group']}/{version}", spec["names"]["kind"])
        if server.catalogue.find_kind(*kind) is not None:
            continue
        body = {
            "apiVersion": DEFINITIONS.api_version,
            "kind": DEFINITIONS.kind,
            "metadata": {"name": definition["metadata"]["name"]},
            "spec": {**spec, "conversion": {"strategy": "None"}},
        }
        try:
            await client.create(DEFINITIONS, body)
            added.append(kind)
        except ApiError:
            refused.append(definition["metadata"]["name"])
    async with asyncio.timeout(SERVED_SECONDS):
        while any(server.catalogue.find_kind(*kind) is None for kind in added):  # noqa: ASYNC110 - nothing reports it
            await asyncio.sleep(0.05)
    return refused
