"""Random requests that are almost valid: every served path, verb and encoding, and odd variants of each."""

import gzip
import json
import random
import struct
from copy import copy
from typing import Any, NamedTuple
from urllib.parse import quote

import yaml

from properties.request_parts import (
    ACCEPTS,
    BUSY_RESOURCES,
    CRD_SPEC,
    CRD_VERSION,
    CRD_VERSION_PARTS,
    DELETE_KEYS,
    EDGE_BODIES,
    FREE_SCHEMA,
    HEADERS,
    KEYS,
    KIND_PARTS,
    MEDIA_TYPES,
    METADATA_PARTS,
    METHODS,
    NAMES,
    NAMESPACES,
    NONRESOURCE_PATHS,
    PARTS,
    PATCH_TYPES,
    QUERIES,
    SCHEMA_KEYWORDS,
    SUBRESOURCE_KINDS,
    VALUES,
)
from properties.typed_objects import TypedValues, schemas_of
from trimtab.api import protobuf
from trimtab.api.kinds.native.fields import has_message, message_name


class FuzzResource(NamedTuple):
    """A resource that discovery lists."""

    api_version: str
    kind: str
    name: str
    namespaced: bool
    verbs: tuple[str, ...]
    subresources: tuple[str, ...]

    @property
    def root(self) -> str:
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"


CUSTOM_RESOURCE = FuzzResource(
    "fuzz.example.com/v1", "A", "as", namespaced=True, verbs=(), subresources=("status", "scale")
)


class FuzzRequest(NamedTuple):
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def resources_of(lists: list[dict[str, Any]]) -> list[FuzzResource]:
    """The resources in APIResourceLists."""
    found: dict[tuple[str, str], FuzzResource] = {}
    for listing in lists:
        version = listing["groupVersion"]
        for entry in listing["resources"]:
            name, _, sub = entry["name"].partition("/")
            if not sub:
                verbs = tuple(entry["verbs"])
                found[version, name] = FuzzResource(version, entry["kind"], name, entry["namespaced"], verbs, ())
        for entry in listing["resources"]:
            name, _, sub = entry["name"].partition("/")
            if sub and (version, name) in found:
                parent = found[version, name]
                found[version, name] = parent._replace(subresources=(*parent.subresources, sub))
    return list(found.values())


class RequestGenerator:
    """Generates requests to the resources of one server."""

    def __init__(self, rng: random.Random, resources: list[FuzzResource], definitions: list[dict[str, Any]]) -> None:
        self.rng = rng
        self._typed = TypedValues(rng, schemas_of(definitions))
        self.resources = resources
        busy = [resource for resource in resources if resource.name in BUSY_RESOURCES]
        self._frequent = [*busy, CUSTOM_RESOURCE, CUSTOM_RESOURCE, *rng.sample(resources, 10)]
        """Resources that most requests are about, so that they meet each other's objects."""
        self._plain = False
        """Whether the current request has common names, headers and media types, so that it gets past the first checks."""

    def request(self) -> FuzzRequest:
        if self.chance(0.06):
            return self._nonresource_request()
        self._plain = self.chance(0.65)
        resource = self.rng.choice(self._frequent if self.chance(0.7) else self.resources)
        method = self.weighted(METHODS)
        path = self.path(method, resource)
        headers = self.headers()
        body = self.body(method, path, resource, headers)
        if self.chance(0.02):
            body, headers["content-encoding"] = gzip.compress(body), "gzip"
        return FuzzRequest(method, f"{path}?{self.query()}", headers, body)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def weighted(self, choices: dict[str, float]) -> str:
        """A choice by weight; a plain request has one of the frequent ones."""
        if self._plain:
            choices = {choice: weight for choice, weight in choices.items() if weight > 2}
        return self.rng.choices(list(choices), list(choices.values()))[0]

    def choice(self, choices: list[Any]) -> Any:
        """One of the choices; the common ones come first in each list."""
        return self.rng.choice(choices[:4] if self._plain else choices)

    def _nonresource_request(self) -> FuzzRequest:
        path = self.rng.choice(NONRESOURCE_PATHS)
        if self.chance(0.2):
            at = self.rng.randint(0, len(path))
            path = path[:at] + self.rng.choice(["%", "/", "//", "%00", "..", "%2f", "\xe9", "?", "a" * 500]) + path[at:]
        method = "GET" if self.chance(0.8) else self.weighted(METHODS)
        return FuzzRequest(method, f"{path}?{self.query()}" if "?" not in path else path, self.headers(), b"")

    # paths, queries and headers

    def path(self, method: str, resource: FuzzResource) -> str:
        place = f"/namespaces/{self.choice(NAMESPACES)}" if resource.namespaced != self.chance(0.03) else ""
        path = f"{resource.root}{place}/{resource.name}"
        if method not in {"POST", "post"} or self.chance(0.25):
            if method == "DELETE" or self.chance(0.85):
                path += f"/{self.choice(NAMES)}"
                if self.chance(0.3):
                    path += f"/{self.rng.choice([*resource.subresources, 'status', 'x', 'scale/x'])}"
        elif resource.subresources and self.chance(0.25):
            path += f"/{self.rng.choice('abcd')}/{self.rng.choice([*resource.subresources, 'eviction', 'x'])}"
        return path

    def query(self) -> str:
        share = self.choice([0, 0, 0, 0.05, 0.05, 0.15])
        pairs = [f"{key}={quote(self.rng.choice(v))}" for key, v in QUERIES.items() if self.chance(share)]
        if self.chance(0.03):
            pairs.append(
                self.rng.choice(["=", "&&&", "%", "a=%ff", "limit=1&limit=x", "\xe9=1", "watch", ";", "a" * 400])
            )
        return "&".join(pairs)

    def headers(self) -> dict[str, str]:
        headers = {
            name: self.rng.choice(values)
            for name, values in HEADERS.items()
            if self.chance(0.001 if self._plain else 0.015)
        }
        return {"accept": self.weighted(ACCEPTS), "user-agent": "fuzz", **headers}

    # bodies

    def body(self, method: str, path: str, resource: FuzzResource, headers: dict[str, str]) -> bytes:
        if self.chance(0.03):
            headers["content-type"] = self.weighted({**MEDIA_TYPES, **PATCH_TYPES})
            return self.rng.choice(EDGE_BODIES)
        if method == "PATCH":
            media = headers["content-type"] = self.weighted(PATCH_TYPES)
            return self.encode(media, self.patch(media, path, resource))
        media = headers["content-type"] = self.weighted(MEDIA_TYPES)
        if method == "DELETE":
            options = {"kind": "DeleteOptions", "apiVersion": "v1", self.rng.choice(DELETE_KEYS): self.value()}
            return self.encode(media, options) if self.chance(0.5) else b""
        if method in {"POST", "PUT", "post"} or self.chance(0.05):
            return self.encode(media, self.object_for(path, resource) if self.chance(0.93) else self.value())
        return b""

    def encode(self, media: str, value: Any) -> bytes:
        if "protobuf" in media:
            return self.damage(self._protobuf(value), 0.3)
        text = json.dumps(value)
        if "yaml" in media and self.chance(0.6) and text.count("{") + text.count("[") < 100:
            text = yaml.safe_dump(json.loads(text), allow_unicode=True)
        return self.damage(text.encode("utf-8", "surrogatepass"), 0.06)

    def _protobuf(self, value: Any) -> bytes:
        if isinstance(value, dict) and has_message(message_name(str(value.get("apiVersion")), str(value.get("kind")))):
            try:
                return protobuf.encode(value)
            except (TypeError, ValueError, AttributeError, KeyError, OverflowError, struct.error):
                pass  # values of the wrong type cannot be encoded: damaged bytes stand for them
        return protobuf.MAGIC + self.rng.randbytes(self.rng.randint(0, 60))

    def damage(self, raw: bytes, probability: float) -> bytes:
        if not self.chance(probability):
            return raw
        at = self.rng.randint(0, len(raw))
        return self.rng.choice(
            [raw[:at], raw[:at] + self.rng.randbytes(3) + raw[at:], raw[:at] + b"\xff" + raw[at + 1 :]]
        )

    def object_for(self, path: str, resource: FuzzResource) -> dict[str, Any]:
        kind = SUBRESOURCE_KINDS.get(path.rpartition("/")[2]) if self.chance(0.9) else None
        head = kind or (resource.api_version, resource.kind)
        fields = self._typed.fields_of(*head) if self.chance(0.4) else self._parts(head[1])
        made = {**fields, "apiVersion": head[0], "kind": head[1], "metadata": self.metadata()}
        if self.chance(0.3):
            made |= self._parts(head[1])
        for _ in range(self.choice([0, 0, 0, 1, 1, 2, 3])):
            self.mutate(made)
        if head[1] == "CustomResourceDefinition" and self.chance(0.7):
            self._fill_crd(made)
        if self.chance(0.03):
            place = self.rng.choice([made, made["metadata"]]) if isinstance(made["metadata"], dict) else made
            key = self.rng.choice(["spec", "data", "status", "x", "free", "labels", "managedFields", "schema"])
            place[key] = self.deep(self.rng.choice([30, 100, 200, 230, 240, 260, 400, 600]))
        return made

    def metadata(self) -> dict[str, Any]:
        parts = {key: self.rng.choice(values) for key, values in METADATA_PARTS.items() if self.chance(0.04)}
        return {"name": self.name(), **json.loads(json.dumps(parts))}

    def _fill_crd(self, made: dict[str, Any]) -> None:
        """A definition of `CUSTOM_RESOURCE` with a random schema."""
        version: dict[str, Any] = {
            **json.loads(json.dumps(CRD_VERSION)),
            "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {"spec": self.schema(), "free": FREE_SCHEMA}}
            },
        }
        for key, values in CRD_VERSION_PARTS.items():
            if self.chance(0.15):
                version[key] = self.rng.choice(values)
        made["metadata"] = {"name": "as.fuzz.example.com"}
        made["spec"] = {**json.loads(json.dumps(CRD_SPEC)), "versions": [version]}

    def schema(self, depth: int = 0) -> Any:
        """A random schema, mostly structural."""
        if self.chance(0.02):
            return self.value()
        type_ = self.rng.choice(
            ["object", "array", "string", "integer", "number", "boolean"] if depth < 4 else ["string"]
        )
        made: dict[str, Any] = {"type": type_}
        if type_ == "object" and self.chance(0.8):
            made["properties"] = {
                key: self.schema(depth + 1) for key in self.rng.sample(KEYS[:30], self.rng.randint(0, 4))
            }
        elif type_ == "object":
            made["additionalProperties"] = self.schema(depth + 1) if self.chance(0.8) else self.chance(0.5)
        if type_ == "array":
            made["items"] = self.schema(depth + 1)
        for key, values in SCHEMA_KEYWORDS.items():
            if self.chance(0.04):
                made[key] = self.rng.choice(values) if self.chance(0.9) else self.value()
        return made

    def _parts(self, kind: str) -> dict[str, Any]:
        parts = {key: part for key, part in PARTS.items() if self.chance(0.75)}
        return json.loads(json.dumps({**parts, **KIND_PARTS.get(kind, {})}))  # type: ignore[no-any-return]

    def deep(self, levels: int) -> Any:
        value: Any = {}
        for _ in range(levels):
            value = {"a": value} if self.chance(0.8) else [value]
        return value

    def value(self, depth: int = 0) -> Any:
        chance = self.rng.random()
        if depth > 4 or chance < 0.45:
            return copy(self.rng.choice(VALUES))  # some are containers, which `mutate` changes
        if chance < 0.7:
            return [self.value(depth + 1) for _ in range(self.rng.randint(0, 3))]
        return {self.rng.choice(KEYS): self.value(depth + 1) for _ in range(self.rng.randint(0, 5))}

    def mutate(self, node: dict[str, Any]) -> None:
        inner = [value for value in node.values() if isinstance(value, dict) and value]
        lists = [item for value in node.values() if isinstance(value, list) for item in value if isinstance(item, dict)]
        if (inner or lists) and self.chance(0.75):
            self.mutate(self.rng.choice(inner + lists))
        else:
            key = self.rng.choice(list(node) if self.chance(0.7) and node else KEYS)
            node[key] = self.value()

    def name(self) -> Any:
        return self.choice(["a", "b", "c", "d", "a", "b", "c", "d", "Bad_Name", "", None, 1, ["a"]])

    def patch(self, media: str, path: str, resource: FuzzResource) -> Any:
        if self.chance(0.08):
            return self.value()
        if "json-patch" not in media:
            return self.object_for(path, resource)
        return [self._operation() for _ in range(self.rng.randint(0, 4))]

    def _operation(self) -> Any:
        if self.chance(0.03):
            return self.value()
        steps = self.rng.choices([*KEYS, "0", "-", "~", "~0", "", "a"], k=self.rng.choice([1, 2, 2, 3, 3, 4, 30]))
        return {
            "op": self.rng.choice(["add", "add", "replace", "remove", "test", "copy", "move", "x"]),
            "path": "/" + "/".join(steps),
            "from": self.rng.choice(["/spec", "/metadata", "/metadata/name", "", "x"]),
            "value": self.value() if self.chance(0.97) else self.deep(500),
        }
