"""The embedded server and our CRDs on a real kube-apiserver accept, store and refuse the same objects."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from kube.rig import ControlPlane
from schema_objects import NAMESPACE, Case, definitions, drawn

from trimtab.api.kind import kinds
from trimtab.client.client import Client, Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import ApiError
from trimtab.runtime.declarations import load_declarations
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

COMPAT = Path(__file__).parents[1] / "compat"
AT_ONCE = 16
OWN_GROUPS = {definition["spec"]["group"] for definition in definitions()}
DRAWN_BY_THE_SERVER = ("uid", "creationTimestamp", "resourceVersion", "managedFields")


class Verdict(NamedTuple):
    """A server's response to an object: the refusal, or the object it would store."""

    code: int
    message: str = ""
    kept: dict[str, Any] = {}

    def agrees(self, other: "Verdict") -> bool:
        return (self.code, self.kept) == (other.code, other.kept)

    def beside(self, other: "Verdict") -> str:
        if self.code != other.code:
            return f"{self.code} {self.message}"
        return json.dumps(difference(self.kept, other.kept))[:600]


def difference(one: Any, other: Any) -> Any:
    """The parts of one value that differ from the other, at their paths."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: difference(value, other.get(key)) for key, value in one.items() if other.get(key) != value}
    return one


def written() -> Iterator[Case]:
    """Objects of the proposals, the flows and the recorded validations."""
    for path in sorted((COMPAT / "seeds").glob("*.yaml")):
        yield Case(path.stem, yaml.safe_load(path.read_text()))
    for path in sorted((COMPAT / "flows_data").glob("*/input.yaml")):
        for step in yaml.safe_load(path.read_text())["steps"]:
            for obj in step.get("objects", []):
                yield Case(path.parent.name, obj)
    selector = {"apiVersion": "apps/v1", "kind": "Deployment"}
    with gzip.open(COMPAT / "golden" / "karmada-validation.jsonl.gz", "rt") as lines:
        for line in lines:
            recorded = json.loads(line)
            yield Case(
                recorded["id"],
                {
                    "apiVersion": "policy.karmada.io/v1alpha1",
                    "kind": "PropagationPolicy",
                    "metadata": {"name": "recorded", "namespace": NAMESPACE},
                    "spec": {"resourceSelectors": [selector], "placement": recorded["placement"]},
                },
            )


async def verdict(client: Client, resource: Resource, obj: dict[str, Any]) -> Verdict:
    if resource.namespaced:
        obj = obj | {"metadata": obj["metadata"] | {"namespace": NAMESPACE}}
    try:
        kept = await client.create(resource, obj, dry_run=True)
    except ApiError as fault:
        return Verdict(fault.code, fault.message)
    return Verdict(200, kept=at_first_sight(resource, kept))


def at_first_sight(resource: Resource, kept: dict[str, Any]) -> dict[str, Any]:
    """The stored object after controller defaulting: controllers set defaults that no schema can express."""
    if resource.group not in OWN_GROUPS:
        return {}
    metadata = {key: value for key, value in kept["metadata"].items() if key not in DRAWN_BY_THE_SERVER}
    kept = {**kept, "metadata": metadata}
    for fill in kinds[resource.id].defaults:
        kept = fill(kept)
    return kept


class Bench:
    """Both servers and their resources."""

    def __init__(self, host: ControlPlane) -> None:
        self._host = host

    async def compared(self, cases: list[Case]) -> list[str]:
        """The cases on which the two servers disagree."""
        load_declarations()
        server = ApiServer(Store(), ApiServerSettings())
        await server.start()
        self._embedded, self._real = LocalClient(server), KubeClient(load(self._host.kubeconfig))
        self._served = {(r.group, r.kind): r for r in await self._real.resources()}
        self._limit = asyncio.Semaphore(AT_ONCE)
        try:
            return [line for line in await asyncio.gather(*map(self._compare, cases)) if line]
        finally:
            await self._real.close()
            await server.stop()

    async def _compare(self, case: Case) -> str:
        group, _, version = case.obj["apiVersion"].rpartition("/")
        resource = self._served[group, case.obj["kind"]]._replace(version=version)
        async with self._limit:
            ours = await verdict(self._embedded, resource, case.obj)
            theirs = await verdict(self._real, resource, case.obj)
        if ours.agrees(theirs):
            return ""
        return f"{case.said}\n    embedded {ours.beside(theirs)}\n    real     {theirs.beside(ours)}"


def test_servers_agree_on_recorded_objects(host_with_crds: ControlPlane) -> None:
    different = asyncio.run(Bench(host_with_crds).compared(list(written())))
    assert not different, f"{len(different)}:\n" + "\n".join(different[:20])


@pytest.mark.parametrize("definition", list(definitions()), ids=lambda definition: definition["spec"]["names"]["kind"])
def test_servers_agree_on_generated_objects(host_with_crds: ControlPlane, definition: dict[str, Any]) -> None:
    different = asyncio.run(Bench(host_with_crds).compared(list(drawn(definition))))
    assert not different, f"{len(different)}:\n" + "\n".join(different[:20])
