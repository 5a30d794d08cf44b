"""The validation of policies that schemas and CEL rules can express, by path in the schema.

The rules accept and refuse what `api/admission` accepts and refuses after defaulting, but see objects to which only the
defaults of the schema were applied: where a default is set by the webhook, the rule treats an absent field as that default.

A kube-apiserver estimates the cost of a rule before it accepts a CRD. A rule under a list without `maxItems` counts as often
as the list could have items in a request of 3 MB. So rules that compare pairs need a bound, keywords are preferred to rules,
and what lies below two lists is in the admission policies (`api/admission/policies.py`).
"""

from collections.abc import Mapping

from trimtab.api.admission.placement import MAX_AFFINITY_TERMS, MAX_OVERFLOW_AFFINITIES, MAX_SPREAD_CONSTRAINTS
from trimtab.api.schema.rule_parts import JSON_POINTER, LABEL_VALUE, QUALIFIED_NAME, cel_rule, cel_rules
from trimtab.api.value import Raw

_IS_CLUSTER_SPREAD = (
    "(has(c.spreadByField) ? c.spreadByField == 'cluster' : (!has(c.spreadByLabel) || c.spreadByLabel == ''))"
)


def _affinity(path: str) -> Mapping[str, Raw]:
    """The field selector of a cluster affinity."""
    return {
        f"{path}.fieldSelector.matchExpressions.*.key": {"enum": ["provider", "region", "zone"]},
        f"{path}.fieldSelector.matchExpressions.*.operator": {"enum": ["In", "NotIn"]},
    }


def _count_of_spread(field: str) -> str:
    condition = _IS_CLUSTER_SPREAD if field == "cluster" else f"has(c.spreadByField) && c.spreadByField == '{field}'"
    return f"self.filter(c, {condition}).size() <= 1"


_PLACEMENT: Mapping[str, Raw] = {
    "spec.placement": cel_rules(
        (
            "!has(self.clusterAffinity) || !has(self.clusterAffinities) || size(self.clusterAffinities) == 0",
            "clusterAffinities cannot co-exist with clusterAffinity",
        ),
        (
            (
                "!has(self.clusterAffinities)"
                " || !self.clusterAffinities.exists(t, has(t.overflowAffinities) && size(t.overflowAffinities) > 0)"
                " || (has(self.replicaScheduling) && has(self.replicaScheduling.replicaSchedulingType)"
                " && self.replicaScheduling.replicaSchedulingType == 'Divided'"
                " && (has(self.replicaScheduling.replicaDivisionPreference)"
                " && self.replicaScheduling.replicaDivisionPreference == 'Aggregated'"
                " || (has(self.replicaScheduling.weightPreference)"
                " && has(self.replicaScheduling.weightPreference.dynamicWeight))))"
            ),
            "overflowAffinities can only be used together with dynamic weight or aggregated scheduling",
        ),
    ),
    "spec.placement.clusterAffinities": {
        "maxItems": MAX_AFFINITY_TERMS,
        **cel_rule(
            "self.all(one, self.exists_one(other, other.affinityName == one.affinityName))",
            "each affinity term in a policy must have a unique name",
        ),
    },
    "spec.placement.clusterAffinities.*": cel_rules(
        (
            (
                "!has(self.overflowAffinities) || size(self.overflowAffinities) == 0"
                " || (has(self.labelSelector) && (has(self.labelSelector.matchLabels)"
                " || (has(self.labelSelector.matchExpressions) && size(self.labelSelector.matchExpressions) > 0)))"
                " || (has(self.fieldSelector) && has(self.fieldSelector.matchExpressions)"
                " && size(self.fieldSelector.matchExpressions) > 0)"
                " || (has(self.clusterNames) && size(self.clusterNames) > 0)"
                " || (has(self.exclude) && size(self.exclude) > 0)"
            ),
            "overflowAffinities can only be used together with the inline ClusterAffinity",
        ),
        (
            (
                "!has(self.overflowAffinities) || self.overflowAffinities.all(one, one.affinityName != self.affinityName"
                " && self.overflowAffinities.exists_one(other, other.affinityName == one.affinityName))"
            ),
            "overflow affinity name must be unique and must not duplicate the primary group's affinityName",
        ),
    ),
    "spec.placement.clusterAffinities.*.affinityName": {"pattern": QUALIFIED_NAME["pattern"]},
    "spec.placement.clusterAffinities.*.overflowAffinities": {"maxItems": MAX_OVERFLOW_AFFINITIES},
    "spec.placement.clusterAffinities.*.overflowAffinities.*.affinityName": {"pattern": QUALIFIED_NAME["pattern"]},
    **_affinity("spec.placement.clusterAffinity"),
    **_affinity("spec.placement.clusterAffinities.*"),
    **_affinity("spec.placement.clusterAffinities.*.overflowAffinities.*"),
    "spec.placement.spreadConstraints": {
        "maxItems": MAX_SPREAD_CONSTRAINTS,
        **cel_rules(
            *(
                (_count_of_spread(field), f"multiple {field} spread constraints are not allowed")
                for field in ("cluster", "region", "zone", "provider")
            ),
            (
                f"!self.exists(c, has(c.spreadByField) && c.spreadByField != '') || self.exists(c, {_IS_CLUSTER_SPREAD})",
                (
                    "the cluster spread constraint must be enabled in one of the constraints "
                    "in case of SpreadByField is enabled"
                ),
            ),
        ),
    },
    "spec.placement.spreadConstraints.*": cel_rules(
        (
            "!has(self.spreadByField) || self.spreadByField == '' || !has(self.spreadByLabel) || self.spreadByLabel == ''",
            "spreadByLabel should not co-exist with spreadByField",
        ),
        (
            "!has(self.maxGroups) || self.maxGroups <= 0 || !has(self.minGroups) || self.minGroups <= self.maxGroups",
            "maxGroups lower than minGroups is not allowed",
        ),
    ),
    "spec.placement.spreadConstraints.*.minGroups": {"minimum": 0},
    "spec.placement.spreadConstraints.*.maxGroups": {"minimum": 0},
    "spec.placement.clusterTolerations.*.operator": {"enum": ["", "Exists", "Equal"]},
    "spec.placement.workloadAffinity": cel_rule(
        "!has(self.affinity) || !has(self.antiAffinity)"
        " || self.affinity.groupByLabelKey != self.antiAffinity.groupByLabelKey",
        "affinity and antiAffinity must not use the same groupByLabelKey",
    ),
    "spec.placement.workloadAffinity.affinity.groupByLabelKey": QUALIFIED_NAME,
    "spec.placement.workloadAffinity.antiAffinity.groupByLabelKey": QUALIFIED_NAME,
}

PROPAGATION_RULES: Mapping[str, Raw] = {
    **_PLACEMENT,
    "spec": cel_rules(
        (
            "!has(self.failover) || !has(self.failover.application) || !has(self.propagateDeps) || self.propagateDeps",
            "application failover is set, propagateDeps must be true",
        ),
        (
            (
                "!has(self.preemption) || self.preemption != 'Always'"
                " || self.resourceSelectors.all(s, has(s.name) && s.name != '')"
            ),
            "name cannot be empty if preemption is Always, the empty name may cause unexpected resources preemption",
        ),
    ),
    "spec.schedulerName": cel_rule("self == oldSelf", "the schedulerName should not be updated"),
    "spec.suspension": cel_rule(
        "!has(self.dispatching) || !self.dispatching || !has(self.dispatchingOnClusters)"
        " || !has(self.dispatchingOnClusters.clusterNames) || size(self.dispatchingOnClusters.clusterNames) == 0",
        "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames",
    ),
    "spec.failover.application": cel_rule(
        "!has(self.gracePeriodSeconds) || (has(self.purgeMode) && self.purgeMode in ['Gracefully', 'Graciously'])",
        "gracePeriodSeconds only takes effect when purgeMode is gracefully",
    ),
    "spec.failover.application.gracePeriodSeconds": {"minimum": 1},
    "spec.failover.application.decisionConditions.tolerationSeconds": {"minimum": 0},
    "spec.failover.application.decisionConditions.healthyState": {"minItems": 1},
    "spec.failover.application.decisionConditions.healthyState.*": {"enum": ["Unhealthy", "Unknown"]},
    "spec.failover.application.statePreservation.rules.*.aliasLabelName": QUALIFIED_NAME,
    "spec.failover.cluster.statePreservation.rules.*.aliasLabelName": QUALIFIED_NAME,
}


def _overriders(path: str) -> Mapping[str, Raw]:
    return {
        f"{path}.labelsOverrider.*.value.*": LABEL_VALUE,
        f"{path}.imageOverrider.*.predicate.path": JSON_POINTER,
        f"{path}.fieldOverrider.*.fieldPath": JSON_POINTER,
        f"{path}.fieldOverrider.*.json.*.subPath": JSON_POINTER,
        f"{path}.fieldOverrider.*.yaml.*.subPath": JSON_POINTER,
    }


_OVERRIDER_LISTS = (
    "plaintext",
    "imageOverrider",
    "commandOverrider",
    "argsOverrider",
    "labelsOverrider",
    "annotationsOverrider",
    "fieldOverrider",
)

OVERRIDE_RULES: Mapping[str, Raw] = {
    "spec": cel_rules(
        (
            "!has(self.overrideRules) || !has(self.targetCluster) || !("
            + " || ".join(
                f"has(self.targetCluster.{part})"
                for part in ("labelSelector", "fieldSelector", "clusterNames", "exclude")
            )
            + ")",
            "overrideRules and targetCluster can't co-exist",
        ),
        (
            "!has(self.overrideRules) || !has(self.overriders) || !("
            + " || ".join(
                f"(has(self.overriders.{name}) && size(self.overriders.{name}) > 0)" for name in _OVERRIDER_LISTS
            )
            + ")",
            "overrideRules and overriders can't co-exist",
        ),
    ),
    **_affinity("spec.targetCluster"),
    **_affinity("spec.overrideRules.*.targetCluster"),
    **_overriders("spec.overriders"),
    **_overriders("spec.overrideRules.*.overriders"),
}

TAINT_POLICY_RULES: Mapping[str, Raw] = {
    **_affinity("spec.targetClusters"),
    "spec.taints.*.key": QUALIFIED_NAME,
    "spec.taints.*.value": LABEL_VALUE,
    "spec.taints.*.effect": {"enum": ["NoSchedule", "NoExecute"]},
}
