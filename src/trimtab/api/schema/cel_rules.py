"""Validation that admission does in code, repeated as schema keywords and CEL rules for CRDs."""

from collections.abc import Mapping

from trimtab.api.admission.cluster import MAX_MODELS, MAX_RANGES, MAX_RESOURCE_NAME_LENGTH, MAX_TAINTS
from trimtab.api.admission.interpreter import OPERATIONS
from trimtab.api.schema.policy_rules import OVERRIDE_RULES, PROPAGATION_RULES, TAINT_POLICY_RULES
from trimtab.api.schema.rule_parts import (
    LABEL_PATTERN,
    LABEL_VALUE,
    NOT_EMPTY,
    QUALIFIED_NAME,
    cel_rule,
    cel_rules,
    selector_validation,
)
from trimtab.api.value import Raw

_CRON_FIELDS = "\\s*\\S+(\\s+\\S+){4}\\s*"
_SECRET_REFERENCE: Raw = {"required": ["namespace", "name"]}
_LABEL: Raw = {"pattern": LABEL_PATTERN, "maxLength": 63}
_SINGLETON = cel_rule("self.metadata.name == 'default'", "metadata.name must be default, the only object of this kind")

EXTRA_VALIDATION: Mapping[str, Mapping[str, Raw]] = {
    "clusters.cluster.karmada.io": {
        "": {
            "required": ["spec"],
            **cel_rule(
                "size(self.metadata.name) <= 48 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
                "metadata.name must be a label of at most 48 characters",
            ),
        },
        "spec": cel_rule(
            "!has(self.zone) || self.zone == '' || !has(self.zones) || size(self.zones) == 0",
            "zone and zones can not co-exist",
        ),
        "spec.apiEndpoint": {"pattern": "^([a-zA-Z][-a-zA-Z0-9+.]*://[^/?#@]+(/[^?#]*)?)?$"},
        "spec.proxyURL": {"pattern": "^((http|https|socks5):.*)?$"},
        "spec.provider": LABEL_VALUE,
        "spec.region": LABEL_VALUE,
        "spec.zone": LABEL_VALUE,
        "spec.zones.*": LABEL_VALUE,
        "spec.secretRef": _SECRET_REFERENCE,
        "spec.secretRef.namespace": NOT_EMPTY,
        "spec.secretRef.name": NOT_EMPTY,
        "spec.impersonatorSecretRef": _SECRET_REFERENCE,
        "spec.impersonatorSecretRef.namespace": NOT_EMPTY,
        "spec.impersonatorSecretRef.name": NOT_EMPTY,
        "spec.taints": {
            "maxItems": MAX_TAINTS,
            **cel_rule(
                "self.all(one, self.exists_one(other, other.key == one.key && other.effect == one.effect))",
                "each key may be listed once per effect",
            ),
        },
        "spec.resourceModels": {
            "maxItems": MAX_MODELS,
            **cel_rules(
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
        "spec.taints.*.key": QUALIFIED_NAME,
        "spec.taints.*.value": LABEL_VALUE,
        "spec.taints.*.effect": {"enum": ["NoSchedule", "NoExecute"]},
    },
    "workloadrebalancers.apps.karmada.io": {
        "spec": cel_rules(
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
        "spec.selectors.*.apiVersion": NOT_EMPTY,
        "spec.selectors.*.kind": NOT_EMPTY,
        **selector_validation("spec.selectors.*.labelSelector"),
        "spec.workloads.*.apiVersion": NOT_EMPTY,
        "spec.workloads.*.kind": NOT_EMPTY,
        "spec.workloads.*.name": NOT_EMPTY,
    },
    "resourceinterpretercustomizations.config.karmada.io": {
        "spec": {
            "required": ["target"],
            **cel_rule(
                " || ".join(f"has(self.{name})" for name in ("customizations", *OPERATIONS)),
                "customizations are required",
            ),
        },
        "spec.target.apiVersion": NOT_EMPTY,
        "spec.target.kind": NOT_EMPTY,
    },
    "disruptionpolicies.trimtab.dev": {
        "": _SINGLETON,
        **selector_validation("spec.floors.*.namespaceSelector"),
        **selector_validation("spec.priorityRules.*.namespaceSelector"),
        **selector_validation("spec.priorityRules.*.podSelector"),
    },
    "priorityorders.trimtab.dev": {"": _SINGLETON, "spec.names": {"minItems": 1}, "spec": {"required": ["names"]}},
    "disruptionbudgets.trimtab.dev": {
        "spec": cel_rules(
            (
                "!(has(self.minAvailable) && has(self.maxUnavailable))",
                "minAvailable and maxUnavailable cannot be both set",
            ),
            (
                "!has(self.unhealthyPodEvictionPolicy) || !has(self.target) || self.target != 'Workloads'",
                "unhealthyPodEvictionPolicy is only supported for budgets with target Pods",
            ),
        ),
        **selector_validation("spec.selector"),
        "spec.windows.*.schedule": {"pattern": f"^{_CRON_FIELDS}$"},
    },
    "propagationpolicies.policy.karmada.io": PROPAGATION_RULES,
    "clusterpropagationpolicies.policy.karmada.io": PROPAGATION_RULES,
    "overridepolicies.policy.karmada.io": OVERRIDE_RULES,
    "clusteroverridepolicies.policy.karmada.io": OVERRIDE_RULES,
    "clustertaintpolicies.policy.karmada.io": TAINT_POLICY_RULES,
    "managedclustersetbindings.cluster.open-cluster-management.io": {
        "": cel_rule(
            "has(self.spec) && has(self.spec.clusterSet) && self.spec.clusterSet == self.metadata.name",
            "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet",
        ),
    },
    "managedclusters.cluster.open-cluster-management.io": {
        "": cel_rule(
            "!has(self.spec) || !has(self.spec.managedClusterClientConfigs)"
            " || size(self.spec.managedClusterClientConfigs) == 0"
            f" || (size(self.metadata.name) <= 63 && self.metadata.name.matches('{LABEL_PATTERN}'))",
            "metadata.name must be a label of at most 63 characters",
        ),
        "spec.managedClusterClientConfigs.*.url": {"pattern": "^https://"},
    },
    "multiclusterservices.networking.karmada.io": {
        "": cel_rule(
            "size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name must be a DNS-1035 label",
        ),
        "spec.types": {"maxItems": 1, **cel_rule("self == oldSelf", "MultiClusterService types are immutable")},
        "spec.ports.*.port": {"minimum": 1, "maximum": 65535},
        "spec.ports.*.name": {"pattern": f"^({LABEL_PATTERN[1:-1]})?$", "maxLength": 63},
        "spec.providerClusters.*.name": _LABEL,
        "spec.consumerClusters.*.name": _LABEL,
    },
    "resourcebindings.work.karmada.io": {"spec.components.*.name": NOT_EMPTY},
    "clusterresourcebindings.work.karmada.io": {"spec.components.*.name": NOT_EMPTY},
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
