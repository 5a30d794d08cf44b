"""The embedded server and our CRDs on a real kube-apiserver accept, store and refuse the same objects."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from kube.rig import RealControlPlane
from schema_objects import NAMESPACE, SchemaCase, definitions, generate_cases

from trimtab.api.admission.enforcement import ENFORCEMENT
from trimtab.api.kind import kinds
from trimtab.client.client import Client, Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import ApiError
from trimtab.runtime.declarations import load_declarations
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

COMPAT = Path(__file__).parents[1] / "compat"
AT_ONCE = 16
OWN_GROUPS = {definition["spec"]["group"] for definition in definitions()}
REFUSALS = (403, 422)
"""Codes of refusals; a webhook refuses with 403, a schema with 422."""
GENERATED_FIELDS = ("uid", "creationTimestamp", "resourceVersion", "managedFields")


class ServerVerdict(NamedTuple):
    """A server's response to an object: the refusal, or the object it would store."""

    code: int
    message: str = ""
    stored: dict[str, Any] = {}

    def agrees_with(self, other: "ServerVerdict") -> bool:
        return (self.code, self.stored) == (other.code, other.stored)

    def describe_against(self, other: "ServerVerdict") -> str:
        if self.code != other.code:
            return f"{self.code} {self.message}"
        return json.dumps(difference(self.stored, other.stored))[:600]


def difference(one: Any, other: Any) -> Any:
    """The parts of one value that differ from the other, at their paths."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: difference(value, other.get(key)) for key, value in one.items() if other.get(key) != value}
    return one


def recorded_cases() -> Iterator[SchemaCase]:
    """Objects of the proposals, the flows and the recorded validations."""
    for path in sorted((COMPAT / "seeds").glob("*.yaml")):
        yield SchemaCase(path.stem, yaml.safe_load(path.read_text()))
    for path in sorted((COMPAT / "flows_data").glob("*/input.yaml")):
        for step in yaml.safe_load(path.read_text())["steps"]:
            for obj in step.get("objects", []):
                yield SchemaCase(path.parent.name, obj)
    selector = {"apiVersion": "apps/v1", "kind": "Deployment"}
    with gzip.open(COMPAT / "golden" / "karmada-validation.jsonl.gz", "rt") as lines:
        for line in lines:
            recorded = json.loads(line)
            yield SchemaCase(
                recorded["id"],
                {
                    "apiVersion": "policy.karmada.io/v1alpha1",
                    "kind": "PropagationPolicy",
                    "metadata": {"name": "recorded", "namespace": NAMESPACE},
                    "spec": {"resourceSelectors": [selector], "placement": recorded["placement"]},
                },
            )


async def server_verdict(client: Client, resource: Resource, obj: dict[str, Any]) -> ServerVerdict:
    if resource.namespaced:
        obj = obj | {"metadata": obj["metadata"] | {"namespace": NAMESPACE}}
    try:
        kept = await client.create(resource, obj, dry_run=True)
    except ApiError as fault:
        return ServerVerdict(fault.code, fault.message)
    return ServerVerdict(200, stored=with_controller_defaults(resource, kept))


def with_controller_defaults(resource: Resource, kept: dict[str, Any]) -> dict[str, Any]:
    """The stored object after controller defaulting: controllers set defaults that no schema can express."""
    if resource.group not in OWN_GROUPS:
        return {}
    metadata = {key: value for key, value in kept["metadata"].items() if key not in GENERATED_FIELDS}
    kept = {**kept, "metadata": metadata}
    for fill in kinds[resource.id].defaults:
        kept = fill(kept)
    return kept


class ServerPair:
    """The embedded server, with and without the checks of webhooks, and the real one."""

    def __init__(self, host: RealControlPlane) -> None:
        self._host = host

    async def compare(self, cases: list[SchemaCase]) -> list[str]:
        """The cases on which the two servers disagree."""
        load_declarations()
        server = ApiServer(Store(), ApiServerSettings())
        await server.start()
        checking = ApiServer(Store(), ApiServerSettings(plugins=[PeerWebhooks()]))
        await checking.start()
        self._embedded, self._real = LocalClient(server), KubeClient(load(self._host.kubeconfig))
        self._checking = LocalClient(checking)
        self._served = {(r.group, r.kind): r for r in await self._real.resources()}
        self._limit = asyncio.Semaphore(AT_ONCE)
        try:
            return [line for line in await asyncio.gather(*map(self._compare, cases)) if line]
        finally:
            await self._real.close()
            await checking.stop()
            await server.stop()

    async def _compare(self, case: SchemaCase) -> str:
        group, _, version = case.obj["apiVersion"].rpartition("/")
        resource = self._served[group, case.obj["kind"]]._replace(version=version)
        async with self._limit:
            ours = await server_verdict(self._embedded, resource, case.obj)
            theirs = await server_verdict(self._real, resource, case.obj)
            if ours.code < 400 and resource.id in ENFORCEMENT:
                checked = await server_verdict(self._checking, resource, case.obj)
                # Without a webhook, the schema and the policies may leave something to it, and refuse nothing else.
                is_left = bool(ENFORCEMENT[resource.id].webhook) and theirs.code < 400
                if checked.code >= 400 and not is_left:
                    ours = checked._replace(code=theirs.code if theirs.code in REFUSALS else checked.code)
        if ours.agrees_with(theirs):
            return ""
        return f"{case.description}\n    embedded {ours.describe_against(theirs)}\n    real     {theirs.describe_against(ours)}"


def test_servers_agree_on_recorded_objects(host_with_crds: RealControlPlane) -> None:
    different = asyncio.run(ServerPair(host_with_crds).compare(list(recorded_cases())))
    assert not different, f"{len(different)}:\n" + "\n".join(different[:20])


@pytest.mark.parametrize("definition", list(definitions()), ids=lambda definition: definition["spec"]["names"]["kind"])
def test_servers_agree_on_generated_objects(host_with_crds: RealControlPlane, definition: dict[str, Any]) -> None:
    different = asyncio.run(ServerPair(host_with_crds).compare(list(generate_cases(definition))))
    assert not different, f"{len(different)}:\n" + "\n".join(different[:20])
