"""Random objects whose fields exist and have the right types, with values that validation, defaults and printers meet rarely."""

import random
from collections.abc import Callable
from typing import Any

from trimtab.api.kinds.native.fields import SCALARS, NativeField, has_message, message, message_name

MAX_DEPTH = 7
TEXTS = [
    "", "a", "b", "A B", "Always", "Never", "OnFailure", "ClusterIP", "ExternalName", "LoadBalancer", "RollingUpdate", "Recreate",
    "OnDelete", "TCP", "SCTP", "Exists", "In", "NotIn", "Equal", "NoSchedule", "NoExecute", "1", "0", "-1", "10%", "500m", "1Gi",
    "1e3", "99999999999999999999", "1e64", "9" * 200, "10.0.0.1", "10.0.0.0/8", "::1", "fe80::/10", "/etc/x", "../x", "https://x/y",
    "http://[", "* * * * *", "*/0 99 * * *", "@every 1h", "TZ=x * * * * *", "Europe/Berlin", "1h30m", "-5s", "2030-01-01T00:00:00Z",
    "v1", "apps/v1", "v1/v2/v3", "kubernetes.io/x", "x" * 300, "é", "\u202e", "\t", "\0", "{}", "[", ".spec.x", "$(A)", "a=b",
    "metadata.name", "system:masters", "User", "Group", "ServiceAccount", "rbac.authorization.k8s.io", "Namespaced", "Cluster",
    "Push", "Pull", "Duplicated", "Divided", "Weighted", "Aggregated", "SpreadConstraint", "AddOrReplace", "replace", "function x()",
    "self.x", "true", "Foreground", "kubernetes.io/tls", "kubernetes.io/dockerconfigjson", "Local", "None", "deployments", "*",
]  # fmt: skip
NUMBERS = [
    0,
    1,
    2,
    3,
    -1,
    80,
    443,
    65535,
    65536,
    30000,
    100,
    1 << 31,
    (1 << 31) - 1,
    -(1 << 31),
    (1 << 63) - 1,
    -(1 << 63),
]
SPECIAL_VALUES: dict[str, list[Any]] = {
    "Quantity": ["1", "500m", "1Gi", "0", "-1", "1e18", "9" * 30, 5, 0.5, "1n", "x"],
    "Time": [
        "2030-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "1969-01-01T00:00:00+14:00",
        None,
        "x",
    ],
    "MicroTime": ["2030-01-01T00:00:00.000001Z", "0001-01-01T00:00:00.000000Z", None, "x"],
    "IntOrString": [0, 1, -1, "50%", "101%", "-5%", "x", "http", "99999999999%", (1 << 31) - 1, 65536],
    "RawExtension": [{}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, {"kind": 1}, [], "x", None],
    "FieldsV1": [{}, {"f:spec": {}}, {"k:{}": {}}, {"x": 1}, "x", None],
    "JSON": [{}, [], 1, "x", None, True, 1.5, {"a": [{}]}],
    "ExtraValue": [["a"], [], None],
    "JSONSchemaPropsOrArray": [{"type": "string"}, [{"type": "string"}], {}, []],
    "JSONSchemaPropsOrBool": [True, False, {"type": "string"}, {}],
    "JSONSchemaPropsOrStringArray": [{"type": "string"}, ["a"], {}],
}


class TypedValues:
    """Values of the fields of native messages and of structural schemas."""

    def __init__(self, rng: random.Random, schemas: dict[tuple[str, str], dict[str, Any]]) -> None:
        self._rng = rng
        self._schemas = schemas
        """Structural schemas of custom kinds by apiVersion and kind."""

    def fields_of(self, api_version: str, kind: str) -> dict[str, Any]:
        """Some fields of the kind; empty when its type is not known."""
        density = self._rng.choice([0.2, 0.4, 0.7])
        if (schema := self._schemas.get((api_version, kind))) is not None:
            made = self._schema_value(schema, density, 0)
        elif has_message(name := message_name(api_version, kind)):
            made = self._message(name, density, 0)
        else:
            made = {}
        return made if isinstance(made, dict) else {}

    def _message(self, name: str, density: float, depth: int) -> dict[str, Any]:
        made = {}
        for field in message(name).json_fields.values():
            share = max(density, 0.9) if field.required else density / (1 + depth / 2)
            if self._rng.random() < share and depth < MAX_DEPTH:
                made[field.name] = self._field(field, density, depth)
        return made

    def _field(self, field: NativeField, density: float, depth: int) -> Any:
        def item() -> Any:
            return self._item(field.type, density, depth)

        if field.shape == "list":
            return [item() for _ in range(self._rng.choice([0, 1, 1, 2, 3]))]
        if field.shape == "map":
            return {self._rng.choice(TEXTS): item() for _ in range(self._rng.choice([0, 1, 1, 2]))}
        return item()

    def _item(self, type_: str, density: float, depth: int) -> Any:
        if type_ in SPECIAL_VALUES:
            return self._rng.choice(SPECIAL_VALUES[type_])
        if type_ not in SCALARS:
            return self._message(type_, density, depth + 1)
        makers: dict[str, Callable[[], Any]] = {
            "string": lambda: self._rng.choice(TEXTS),
            "bool": lambda: self._rng.random() < 0.5,
            "bytes": lambda: self._rng.choice(["", "aGk=", "%", "e30="]),
            "double": lambda: self._rng.choice([0, 1.5, -1, 1e300]),
        }
        return makers.get(type_, lambda: self._rng.choice(NUMBERS))()

    def _schema_value(self, schema: Any, density: float, depth: int) -> Any:
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return None
        if schema.get("enum") and self._rng.random() < 0.8:
            return self._rng.choice(schema["enum"])
        type_ = schema.get("type")
        if type_ == "object":
            return self._schema_object(schema, density, depth)
        if type_ == "array":
            items = range(self._rng.choice([0, 1, 1, 2, 3]))
            return [self._schema_value(schema.get("items"), density, depth + 1) for _ in items]
        if type_ in {"integer", "number"}:
            return self._rng.choice(NUMBERS)
        if type_ == "boolean":
            return self._rng.random() < 0.5
        return self._rng.choice(TEXTS if type_ == "string" else SPECIAL_VALUES["IntOrString"])

    def _schema_object(self, schema: dict[str, Any], density: float, depth: int) -> dict[str, Any]:
        required = schema.get("required") or ()
        made: dict[str, Any] = {}
        for name, inner in (schema.get("properties") or {}).items():
            if self._rng.random() < (max(density, 0.9) if name in required else density / (1 + depth / 2)):
                made[name] = self._schema_value(inner, density, depth + 1)
        if isinstance(schema.get("additionalProperties"), dict):
            made[self._rng.choice(TEXTS)] = self._schema_value(schema["additionalProperties"], density, depth + 1)
        if not schema.get("properties") and schema.get("x-kubernetes-preserve-unknown-fields"):
            made |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"replicas": 1}}
        return made


def schemas_of(definitions: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The schemas of CustomResourceDefinitions."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for definition in definitions:
        spec = definition["spec"]
        for version in spec["versions"]:
            key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
            found[key] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return found
