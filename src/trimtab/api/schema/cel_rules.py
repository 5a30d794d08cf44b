"""Validation that admission does in code, repeated as schema keywords and CEL rules for CRDs."""

from collections.abc import Mapping

from trimtab.api.admission.cluster import MAX_MODELS, MAX_RANGES, MAX_RESOURCE_NAME_LENGTH, MAX_TAINTS
from trimtab.api.admission.interpreter import OPERATIONS
from trimtab.api.value import Raw

_LABEL_VALUE: Raw = {"pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$", "maxLength": 63}
_QUALIFIED_NAME: Raw = {
    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    "maxLength": 317,
}
_CRON_FIELDS = "\\s*\\S+(\\s+\\S+){4}\\s*"
_NOT_EMPTY: Raw = {"minLength": 1}
_SECRET_REFERENCE: Raw = {"required": ["namespace", "name"]}
_SELECTOR_REQUIREMENT: Raw = {
    "anyOf": [
        {
            "properties": {"operator": {"enum": ["In", "NotIn"]}, "values": {"minItems": 1}},
            "required": ["values"],
        },
        {"properties": {"operator": {"enum": ["Exists", "DoesNotExist"]}, "values": {"maxItems": 0}}},
    ]
}


def _selector_validation(path: str) -> Mapping[str, Raw]:
    """The syntax of a label selector."""
    return {
        f"{path}.matchLabels.*": _LABEL_VALUE,
        f"{path}.matchExpressions.*": _SELECTOR_REQUIREMENT,
        f"{path}.matchExpressions.*.key": _QUALIFIED_NAME,
        f"{path}.matchExpressions.*.values.*": _LABEL_VALUE,
    }


def _cel_rules(*rules: tuple[str, str]) -> Raw:
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


def _cel_rule(rule: str, message: str) -> Raw:
    return _cel_rules((rule, message))


_SINGLETON = _cel_rule("self.metadata.name == 'default'", "metadata.name must be default, the only object of this kind")

EXTRA_VALIDATION: Mapping[str, Mapping[str, Raw]] = {
    "clusters.cluster.karmada.io": {
        "": {
            "required": ["spec"],
            **_cel_rule(
                "size(self.metadata.name) <= 48 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
                "metadata.name must be a label of at most 48 characters",
            ),
        },
        "spec": _cel_rule(
            "!has(self.zone) || self.zone == '' || !has(self.zones) || size(self.zones) == 0",
            "zone and zones can not co-exist",
        ),
        "spec.apiEndpoint": {"pattern": "^([a-zA-Z][-a-zA-Z0-9+.]*://[^/?#@]+(/[^?#]*)?)?$"},
        "spec.proxyURL": {"pattern": "^((http|https|socks5):.*)?$"},
        "spec.provider": _LABEL_VALUE,
        "spec.region": _LABEL_VALUE,
        "spec.zone": _LABEL_VALUE,
        "spec.zones.*": _LABEL_VALUE,
        "spec.secretRef": _SECRET_REFERENCE,
        "spec.secretRef.namespace": _NOT_EMPTY,
        "spec.secretRef.name": _NOT_EMPTY,
        "spec.impersonatorSecretRef": _SECRET_REFERENCE,
        "spec.impersonatorSecretRef.namespace": _NOT_EMPTY,
        "spec.impersonatorSecretRef.name": _NOT_EMPTY,
        "spec.taints": {
            "maxItems": MAX_TAINTS,
            **_cel_rule(
                "self.all(one, self.exists_one(other, other.key == one.key && other.effect == one.effect))",
                "each key may be listed once per effect",
            ),
        },
        "spec.resourceModels": {
            "maxItems": MAX_MODELS,
            **_cel_rules(
                (
                    "self.all(one, self.exists_one(other, other.grade == one.grade))",
                    "each grade may be listed once",
                ),
                (
                    "self.all(one, one.ranges.map(bounds, bounds.name) == self[0].ranges.map(bounds, bounds.name))",
                    "every model must have the same resources in the same order",
                ),
            ),
        },
        "spec.resourceModels.*.ranges": {"maxItems": MAX_RANGES},
        "spec.resourceModels.*.ranges.*.name": {"maxLength": MAX_RESOURCE_NAME_LENGTH},
        "spec.taints.*.key": _QUALIFIED_NAME,
        "spec.taints.*.value": _LABEL_VALUE,
        "spec.taints.*.effect": {"enum": ["NoSchedule", "NoExecute"]},
    },
    "workloadrebalancers.apps.karmada.io": {
        "spec": _cel_rules(
            (
                "(has(self.workloads) && size(self.workloads) > 0) || (has(self.selectors) && size(self.selectors) > 0)",
                "workloads are required",
            ),
            (
                "!has(self.timeZone) || self.timeZone == '' || (has(self.schedule) && self.schedule != '')",
                "timeZone must not be set without schedule",
            ),
            (
                "!has(self.schedule) || self.schedule == '' || !has(self.ttlSecondsAfterFinished)",
                "ttlSecondsAfterFinished must not be set together with schedule",
            ),
        ),
        "spec.schedule": {"pattern": f"^({_CRON_FIELDS})?$"},
        "spec.selectors.*.apiVersion": _NOT_EMPTY,
        "spec.selectors.*.kind": _NOT_EMPTY,
        **_selector_validation("spec.selectors.*.labelSelector"),
        "spec.workloads.*.apiVersion": _NOT_EMPTY,
        "spec.workloads.*.kind": _NOT_EMPTY,
        "spec.workloads.*.name": _NOT_EMPTY,
    },
    "resourceinterpretercustomizations.config.karmada.io": {
        "spec": {
            "required": ["target"],
            **_cel_rule(
                " || ".join(f"has(self.{name})" for name in ("customizations", *OPERATIONS)),
                "customizations are required",
            ),
        },
        "spec.target.apiVersion": _NOT_EMPTY,
        "spec.target.kind": _NOT_EMPTY,
    },
    "disruptionpolicies.trimtab.dev": {
        "": _SINGLETON,
        **_selector_validation("spec.floors.*.namespaceSelector"),
        **_selector_validation("spec.priorityRules.*.namespaceSelector"),
        **_selector_validation("spec.priorityRules.*.podSelector"),
    },
    "priorityorders.trimtab.dev": {"": _SINGLETON, "spec.names": {"minItems": 1}, "spec": {"required": ["names"]}},
    "disruptionbudgets.trimtab.dev": {
        "spec": _cel_rules(
            (
                "!(has(self.minAvailable) && has(self.maxUnavailable))",
                "minAvailable and maxUnavailable cannot be both set",
            ),
            (
                "!has(self.unhealthyPodEvictionPolicy) || !has(self.target) || self.target != 'Workloads'",
                "unhealthyPodEvictionPolicy is only supported for budgets with target Pods",
            ),
        ),
        **_selector_validation("spec.selector"),
        "spec.windows.*.schedule": {"pattern": f"^{_CRON_FIELDS}$"},
    },
}
"""By kind and by path in its schema; `*` stands for the items of a list and the values of a map."""


def with_extra_validation(kind: str, schema: Raw) -> Raw:
    """The schema of a kind with its additional validation."""
    for path, addition in EXTRA_VALIDATION.get(kind, {}).items():
        schema = _add_at(schema, tuple(path.split(".")) if path else (), addition)
    return schema


def _add_at(schema: Raw, path: tuple[str, ...], addition: Raw) -> Raw:
    if not path:
        required = {*schema.get("required", ()), *addition.get("required", ())}
        return {**schema, **addition, **({"required": sorted(required)} if required else {})}
    head, *rest = path
    if head == "*":
        inside = "items" if "items" in schema else "additionalProperties"
        return {**schema, inside: _add_at(schema[inside], tuple(rest), addition)}
    properties = schema["properties"]
    return {**schema, "properties": {**properties, head: _add_at(properties[head], tuple(rest), addition)}}
