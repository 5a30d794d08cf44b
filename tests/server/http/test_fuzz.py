"""Random requests never cause an internal error."""

import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.resources import ServedResource

KEYS = [
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "uid",
    "resourceVersion",
    "generation",
    "containers",
    "template",
    "selector",
    "matchLabels",
    "replicas",
    "data",
    "kind",
    "apiVersion",
    "managedFields",
    "rules",
    "subjects",
    "roleRef",
    "versions",
    "names",
    "schema",
    "openAPIV3Schema",
    "ports",
    "type",
    "items",
    "placement",
    "resourceSelectors",
    "clusterAffinity",
    "webhooks",
    "clientConfig",
    "involvedObject",
    "eventTime",
    "deletionTimestamp",
    "taints",
    "tolerations",
    "resources",
    "limits",
    "requests",
    "cpu",
    "target",
    "deleteOptions",
    "preconditions",
    "propagationPolicy",
    "gracePeriodSeconds",
    "resourceAttributes",
    "nonResourceAttributes",
    "token",
    "audiences",
    "expirationSeconds",
    "boundObjectRef",
    "jobTemplate",
    "schedule",
    "hard",
    "minAvailable",
    "scaleTargetRef",
    "manager",
    "operation",
    "fieldsV1",
    "f:spec",
    "$patch",
    "$setElementOrder/containers",
    "$retainKeys",
    "$deleteFromPrimitiveList/finalizers",
]
VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    3.5,
    10**12,
    2**63,
    -(2**70),
    1e300,
    "",
    "a",
    "A B",
    "x" * 70,
    "10%",
    "500m",
    "v1",
]
VALUES += ["2020-01-01T00:00:00Z", "é\0", "\ud83d", "{}", "Always", "default", "replace", "delete", "merge", [], {}]
QUERIES = {
    "limit": ["1", "0", "-1", "abc", "9" * 20],
    "continue": ["x", "e30"],
    "resourceVersion": ["0", "1", "abc", "999999", "-1"],
    "resourceVersionMatch": ["Exact", "NotOlderThan", "x"],
    "labelSelector": ["a=b", "a in (", "!", "a>3,b", "%00", ",,"],
    "fieldSelector": ["metadata.name=a", "spec.x=1", "a", "="],
    "watch": ["1"],
    "timeoutSeconds": ["1", "x", "-5"],
    "sendInitialEvents": ["true"],
    "dryRun": ["All", "x", ""],
    "fieldManager": ["m", "é" * 80, ""],
    "fieldValidation": ["Strict", "Warn", "Ignore", "x"],
    "force": ["true"],
    "pretty": ["true"],
    "includeObject": ["Object", "None", "Bad"],
    "propagationPolicy": ["Foreground", "Orphan", "x"],
    "gracePeriodSeconds": ["0", "x", "-1"],
}
PATCHES = ["merge-patch+json", "json-patch+json", "strategic-merge-patch+json", "apply-patch+yaml", "json"]
ACCEPTS = ["application/json"] * 5 + [
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "*/*",
    "x",
]


class RequestGenerator:
    """Generates requests that are almost valid."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def value(self, depth: int = 0) -> Any:
        chance = self.rng.random()
        if depth > 4 or chance < 0.45:
            return self.rng.choice(VALUES)
        if chance < 0.7:
            return [self.value(depth + 1) for _ in range(self.rng.randint(0, 3))]
        return {self.rng.choice(KEYS): self.value(depth + 1) for _ in range(self.rng.randint(0, 5))}

    def object_of(self, served: ServedResource) -> dict:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": template,
            "containers": [{"name": "c", "image": "i"}],
            "resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}],
            "ports": [{"port": 80}],
        }
        made = {"apiVersion": served.api_version, "kind": served.kind.name, "metadata": {"name": self.name()}}
        made |= {key: part for key, part in {"spec": spec, "data": {"k": "v"}}.items() if self.rng.random() < 0.8}
        for _ in range(self.rng.randint(0, 3)):
            self.mutate(made)
        return made

    def mutate(self, node: dict) -> None:
        inner = [value for value in node.values() if isinstance(value, dict) and value]
        if inner and self.rng.random() < 0.7:
            self.mutate(self.rng.choice(inner))
        else:
            key = self.rng.choice(list(node) if self.rng.random() < 0.6 and node else KEYS)
            node[key] = self.value()

    def name(self) -> str:
        return self.rng.choice(["a", "b", "c", "Bad_Name", ""])

    def encode(self, body: Any) -> bytes:
        text = json.dumps(body)
        if self.rng.random() < 0.07:
            text = text[: self.rng.randint(0, len(text))]
        raw = text.encode("utf-8", "surrogatepass")
        return raw if self.rng.random() > 0.03 else raw[:5] + b"\xff\xfe" + raw[5:]

    def query(self) -> str:
        return "&".join(f"{key}={self.rng.choice(v)}" for key, v in QUERIES.items() if self.rng.random() < 0.12)

    def request(self, served: ServedResource) -> tuple[str, str, bytes | None, str]:
        root = f"/apis/{served.group}/{served.version}" if served.group else f"/api/{served.version}"
        place = "/namespaces/default" if served.kind.namespaced and self.rng.random() < 0.93 else ""
        path = f"{root}{place}/{served.resource}"
        method = self.rng.choice(["GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE"])
        if method != "POST" or self.rng.random() < 0.15:
            path += f"/{self.rng.choice('abcd')}"
            if self.rng.random() < 0.25:
                path += f"/{self.rng.choice([*served.subresources, 'status'])}"
        media, body = self.body(method, served)
        return method, f"{path}?{self.query()}", body, media

    def body(self, method: str, served: ServedResource) -> tuple[str, bytes | None]:
        if method in {"POST", "PUT"}:
            media = self.rng.choice(["json"] * 8 + ["yaml", "vnd.kubernetes.protobuf"])
            sent = self.object_of(served) if self.rng.random() < 0.9 else self.value()
            return f"application/{media}", self.encode(sent)
        if method == "PATCH":
            media = self.rng.choice(PATCHES)
            return f"application/{media}", self.encode(self.patch(media, served))
        if method == "DELETE" and self.rng.random() < 0.5:
            return "application/json", self.encode({"kind": "DeleteOptions", self.rng.choice(KEYS): self.value()})
        return "application/json", None

    def patch(self, media: str, served: ServedResource) -> Any:
        if self.rng.random() < 0.1:
            return self.value()
        if media != "json-patch+json":
            return self.object_of(served)
        operations = ["add", "remove", "replace", "test", "copy", "move", "x"]
        return [
            {
                "op": self.rng.choice(operations),
                "path": "/" + "/".join(self.rng.choices([*KEYS, "0", "-"], k=self.rng.randint(1, 3))),
                "from": "/spec",
                "value": self.value(),
            }
            for _ in range(self.rng.randint(0, 3))
        ]


@settings(max_examples=12)
@given(st.integers(0, 1 << 32))
def test_random_requests_never_cause_an_internal_error(seed: int) -> None:
    generator = RequestGenerator(random.Random(seed))

    async def scenario(client: AsgiClient) -> None:
        served = list(client.server.catalogue)
        for _ in range(150):
            method, path, body, media = generator.request(generator.rng.choice(served))
            accept = generator.rng.choice(ACCEPTS)
            response = await client(method, path, body, accept=accept, content_type=media, user_agent="fuzz")
            assert b"unexpected server failure" not in response.body, (method, path, body, media, accept)

    with_asgi_client(scenario)
