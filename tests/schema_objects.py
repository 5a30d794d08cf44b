"""Objects generated from the schemas of our kinds: complete valid ones, and the same with one error."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from click.testing import CliRunner

from trimtab.cli.commands.crds import command

NAMESPACE = "default"
WRONG_TYPES = {"string": 7, "integer": "seven", "number": "seven", "boolean": "yes", "array": {"a": 1}, "object": ["a"]}
EXAMPLES = {"string": "a", "integer": 1, "number": 1, "boolean": True}
BY_NAME = {
    "operator": "In",
    "timeZone": "UTC",
    "schedule": "* * * * *",
    "namespace": NAMESPACE,
    "clusterSet": "default",
}
"""Values for strings that the schema does not restrict but a validation does."""
TEXTS = (
    "a",
    "aa",
    "/a",
    "5m",
    "5",
    "50%",
    "aGk=",
    "2030-01-01T00:00:00Z",
    "https://a.example",
    "work-agent",
    "* * * * *",
)
"""One of these matches every pattern and format of our schemas."""
BY_FORMAT = {"date-time": "2030-01-01T00:00:00Z", "byte": "aGk="}
EMBEDDED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
MAX_DEPTH = 20
EXCLUSIVE_FIELDS = {
    "Cluster": (("spec.zone",), ("spec.zones",)),
    "DisruptionBudget": (
        ("spec.minAvailable", "spec.unhealthyPodEvictionPolicy"),
        ("spec.maxUnavailable", "spec.unhealthyPodEvictionPolicy"),
    ),
    "WorkloadRebalancer": (("spec.schedule", "spec.timeZone"), ("spec.ttlSecondsAfterFinished",)),
    **dict.fromkeys(
        ("PropagationPolicy", "ClusterPropagationPolicy"),
        (
            (
                "spec.placement.clusterAffinities",
                "spec.placement.spreadConstraints.0.spreadByLabel",
                "spec.placement.workloadAffinity.affinity",
                "spec.suspension.dispatching",
                "spec.failover.application.gracePeriodSeconds",
            ),
            (
                "spec.placement.clusterAffinity",
                "spec.placement.clusterAffinities.0.overflowAffinities",
                "spec.placement.spreadConstraints.0.spreadByField",
                "spec.placement.workloadAffinity.antiAffinity",
                "spec.suspension.dispatchingOnClusters",
                "spec.failover.application.purgeMode",
            ),
        ),
    ),
    **dict.fromkeys(
        ("OverridePolicy", "ClusterOverridePolicy"),
        (
            ("spec.overrideRules", "spec.overriders.fieldOverrider.0.json"),
            ("spec.targetCluster", "spec.overriders", "spec.overrideRules.0.overriders.fieldOverrider.0.yaml"),
        ),
    ),
}
"""Mutually exclusive fields: a complete object is generated without each of these."""
OMITTED = object()


class SchemaCase(NamedTuple):
    """An object and a description of it."""

    description: str
    obj: dict[str, Any]


def definitions() -> Iterator[dict[str, Any]]:
    """The CRDs that `trimtab crds` prints."""
    yield from yaml.load_all(CliRunner().invoke(command).output, Loader=yaml.CSafeLoader)


def example(schema: dict[str, Any], name: str = "", depth: int = 0) -> Any:
    """A value with every property of the schema."""
    if schema.get("x-kubernetes-embedded-resource"):
        return EMBEDDED
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    kind = schema.get("type", "object")
    if kind == "array":
        return [example(schema["items"], name, depth + 1)]
    if kind != "object":
        return example_text(schema, name) if kind == "string" else max(EXAMPLES[kind], schema.get("minimum", 0))
    if depth > MAX_DEPTH:
        return {}
    if isinstance(schema.get("additionalProperties"), dict):
        return {"key": example(schema["additionalProperties"], name, depth + 1)}
    return {name: example(inner, name, depth + 1) for name, inner in (schema.get("properties") or {}).items()}


def example_text(schema: dict[str, Any], name: str) -> str:
    if name in BY_NAME or schema.get("format") in BY_FORMAT:
        return BY_NAME.get(name) or BY_FORMAT[schema["format"]]
    fits = [t for t in TEXTS if len(t) >= schema.get("minLength", 0) and re.search(schema.get("pattern", ""), t)]
    return fits[0]


def mutations(value: Any, schema: dict[str, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every path of a value with invalid values for it; OMITTED removes the value."""
    kind = schema.get("type")
    if path:
        yield path, None
        if kind in WRONG_TYPES:
            yield path, WRONG_TYPES[kind]
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
            yield path, [*value, *value]  # duplicates, which a map or a set refuses
            if schema.get("maxItems", 5000) < 5000:
                yield path, list(value) * (schema["maxItems"] + 1)
    if isinstance(value, list) and value:
        yield from mutations(value[0], schema["items"], (*path, 0))
    if isinstance(value, dict):
        for name, inner in (schema.get("properties") or {}).items():
            if name in value:
                yield (*path, name), OMITTED
                yield from mutations(value[name], inner, (*path, name))


def with_value(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with `new` at the path."""
    head, *rest = path
    copy = list(value) if isinstance(value, list) else dict(value)
    if rest:
        copy[head] = with_value(copy[head], tuple(rest), new)
    elif new is OMITTED:
        del copy[head]
    else:
        copy[head] = new
    return copy


def generate_cases(definition: dict[str, Any]) -> Iterator[SchemaCase]:
    """Objects generated from the schema of a kind: complete ones first, then each with one error."""
    fulls = list(full_objects(definition))
    yield from fulls
    yield from (case for whole in fulls for case in with_one_thing_wrong(definition, whole))


def full_objects(definition: dict[str, Any]) -> Iterator[SchemaCase]:
    spec = definition["spec"]
    version = next(v for v in spec["versions"] if v["storage"])
    name = spec["names"]["kind"]
    metadata = {"name": "default", **({"namespace": NAMESPACE} if spec["scope"] == "Namespaced" else {})}
    head = {"apiVersion": f"{spec['group']}/{version['name']}", "kind": name, "metadata": metadata}
    for apart in EXCLUSIVE_FIELDS.get(name, ((),)):
        whole = example(body_schema(definition))
        for place in apart:
            steps = (int(step) if step.isdigit() else step for step in place.split("."))
            whole = with_value(whole, tuple(steps), OMITTED)
        yield SchemaCase(f"{name}, full{' without ' if apart else ''}{', '.join(apart)}", head | whole)


def body_schema(definition: dict[str, Any]) -> dict[str, Any]:
    """The schema of a kind without apiVersion, kind and metadata."""
    version = next(v for v in definition["spec"]["versions"] if v["storage"])
    schema = version["schema"]["openAPIV3Schema"]
    about = ("apiVersion", "kind", "metadata")
    properties = {name: inner for name, inner in schema["properties"].items() if name not in about}
    return {"type": "object", "properties": properties, "required": schema.get("required", [])}


def with_one_thing_wrong(definition: dict[str, Any], whole: SchemaCase) -> Iterator[SchemaCase]:
    yield SchemaCase(f"{whole.description}, with an unknown field", whole.obj | {"noSuchField": 1})
    schema = body_schema(definition)
    body = {name: value for name, value in whole.obj.items() if name in schema["properties"]}
    head = {name: value for name, value in whole.obj.items() if name not in schema["properties"]}
    for path, new in mutations(body, schema):
        shown = "left out" if new is OMITTED else json.dumps(new)[:40]
        yield SchemaCase(
            f"{whole.description}, but {'.'.join(map(str, path))} {shown}", head | with_value(body, path, new)
        )
