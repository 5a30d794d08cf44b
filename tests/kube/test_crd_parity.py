"""What the embedded server accepts and refuses, the definitions on a real kube-apiserver accept and refuse."""

import asyncio
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from kube.fleet import definitions
from kube.rig import ControlPlane

from trimtab.api.admission.interpreter import OPERATIONS
from trimtab.app import learn_everything
from trimtab.client.client import Client, Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import ApiFault
from trimtab.server.assembly import ApiServer, Settings
from trimtab.server.local import LocalClient
from trimtab.store.log import Store

COMPAT = Path(__file__).parents[1] / "compat"
NAMESPACE = "default"
WRONG = {"string": 7, "integer": "seven", "number": "seven", "boolean": "yes", "array": {"a": 1}, "object": ["a"]}
EXAMPLES = {"string": "a", "integer": 1, "number": 1, "boolean": True}
TEXTS = ("a", "aa", "5m", "5", "50%", "aGk=", "2030-01-01T00:00:00Z", "https://a.example", "work-agent", "* * * * *")
"""One of these fits every pattern and format of ours."""
DEEPEST = 20
TRIGGERED = "spec.activeEvictionHistory.0.createTimestamp"
PUT_RIGHT = {
    "Cluster": ("spec.zone", "spec.resourceModels"),
    "ClusterResourceBinding": (TRIGGERED,),
    "ResourceBinding": (TRIGGERED,),
    "Placement": ("spec.prioritizerPolicy.configurations",),
    "ResourceInterpreterCustomization": tuple(f"spec.{name}" for name in OPERATIONS),
}
"""Second spellings and gaps that the embedded server puts right before it judges: a kube-apiserver cannot."""


class Case(NamedTuple):
    """An object, and what is particular about it."""

    said: str
    obj: dict[str, Any]


class Verdict(NamedTuple):
    """What a server thinks of an object."""

    code: int
    message: str = ""


def example(schema: dict[str, Any], depth: int = 0) -> Any:
    """A value with everything in it that the schema speaks of."""
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    kind = schema.get("type", "object")
    if kind == "array":
        return [example(schema["items"], depth + 1)]
    if kind != "object":
        return text(schema) if kind == "string" else max(EXAMPLES[kind], schema.get("minimum", 0))
    if depth > DEEPEST:
        return {}
    if isinstance(schema.get("additionalProperties"), dict):
        return {"key": example(schema["additionalProperties"], depth + 1)}
    return {name: example(inner, depth + 1) for name, inner in (schema.get("properties") or {}).items()}


def text(schema: dict[str, Any]) -> str:
    if schema.get("format") == "date-time":
        return "2030-01-01T00:00:00Z"
    fits = [t for t in TEXTS if len(t) >= schema.get("minLength", 0) and re.search(schema.get("pattern", ""), t)]
    return fits[0]


def mutations(value: Any, schema: dict[str, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place of a value, with things that may not stand there; LEFT_OUT stands for nothing at all."""
    kind = schema.get("type")
    if path:
        yield path, None
        if kind in WRONG:
            yield path, WRONG[kind]
        if schema.get("enum"):
            yield path, "NoSuchChoice"
        for bound, step in (("minimum", -1), ("maximum", 1)):
            if bound in schema:
                yield path, schema[bound] + step
        if kind == "string":
            yield path, ""
            if "maxLength" in schema and schema["maxLength"] < 5000:
                yield path, "a" * (schema["maxLength"] + 1)
        if kind == "array":
            yield path, []
            yield path, [*value, *value]  # twins, which a map or a set refuses
    if isinstance(value, list) and value:
        yield from mutations(value[0], schema["items"], (*path, 0))
    if isinstance(value, dict):
        for name, inner in (schema.get("properties") or {}).items():
            if name in value:
                yield (*path, name), LEFT_OUT
                yield from mutations(value[name], inner, (*path, name))


LEFT_OUT = object()


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with something else at one place."""
    head, *rest = path
    copy = list(value) if isinstance(value, list) else dict(value)
    if rest:
        copy[head] = put(copy[head], tuple(rest), new)
    elif new is LEFT_OUT:
        del copy[head]
    else:
        copy[head] = new
    return copy


def drawn(definition: dict[str, Any]) -> Iterator[Case]:
    """Objects drawn from the schema of a kind: a full one, and the full one with one thing wrong."""
    spec = definition["spec"]
    version = next(v for v in spec["versions"] if v["storage"])
    schema = version["schema"]["openAPIV3Schema"]
    body = {
        name: inner for name, inner in schema["properties"].items() if name not in ("apiVersion", "kind", "metadata")
    }
    metadata = {"name": "drawn", **({"namespace": NAMESPACE} if spec["scope"] == "Namespaced" else {})}
    head = {"apiVersion": f"{spec['group']}/{version['name']}", "kind": spec["names"]["kind"], "metadata": metadata}
    inner_schema = {"type": "object", "properties": body, "required": schema.get("required", [])}
    name = spec["names"]["kind"]
    full = example(inner_schema)
    for place in PUT_RIGHT.get(name, ()):
        full = put(full, tuple(int(step) if step.isdigit() else step for step in place.split(".")), LEFT_OUT)
    yield Case(f"{name}, full", head | full)
    yield Case(f"{name} with a field nobody knows", head | full | {"noSuchField": 1})
    for path, new in mutations(full, inner_schema):
        shown = "left out" if new is LEFT_OUT else json.dumps(new)[:40]
        yield Case(f"{name} {'.'.join(map(str, path))} {shown}", head | put(full, path, new))


def written() -> Iterator[Case]:
    """Objects of the documents, the flows and the recorded validations."""
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
        await client.create(resource, obj, dry_run=True)
    except ApiFault as fault:
        return Verdict(fault.code, fault.message)
    return Verdict(200)


async def compared(host: ControlPlane, cases: list[Case]) -> list[str]:
    """The cases that the two servers judge differently."""
    learn_everything()
    server = ApiServer(Store(), Settings())
    await server.start()
    embedded, real = LocalClient(server), KubeClient(load(host.kubeconfig))
    try:
        served = {(r.api_version, r.kind): r for r in await real.resources()}
        limit = asyncio.Semaphore(16)

        async def compare(case: Case) -> str:
            resource = served.get((case.obj["apiVersion"], case.obj["kind"]))
            if resource is None:
                return ""
            async with limit:
                ours, theirs = await verdict(embedded, resource, case.obj), await verdict(real, resource, case.obj)
            return "" if ours.code == theirs.code else f"{case.said}\n    embedded {ours}\n    real     {theirs}"

        return [said for said in await asyncio.gather(*map(compare, cases)) if said]
    finally:
        await real.close()
        await server.stop()


def test_written_objects_are_judged_alike(defined: ControlPlane) -> None:
    different = asyncio.run(compared(defined, list(written())))
    assert not different, f"{len(different)}:\n" + "\n".join(different[:20])


@pytest.mark.parametrize("definition", list(definitions()), ids=lambda definition: definition["spec"]["names"]["kind"])
def test_drawn_objects_are_judged_alike(defined: ControlPlane, definition: dict[str, Any]) -> None:
    different = asyncio.run(compared(defined, list(drawn(definition))))
    assert not different, f"{len(different)}:\n" + "\n".join(different[:20])
