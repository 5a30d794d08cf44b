"""Defaults of workloads and of what scales them."""

from typing import Any

from trimtab.api.kinds.native.defaults.fill import fill_items, fill_member, set_missing
from trimtab.api.kinds.native.defaults.pods import pod_template
from trimtab.api.kinds.native.defaults.storage import persistent_volume_claim
from trimtab.api.value import Raw

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _rolling_update(strategy: Raw, **values: Any) -> Raw:
    strategy = set_missing(strategy, type="RollingUpdate")
    if strategy["type"] != "RollingUpdate":
        return strategy
    return {**strategy, "rollingUpdate": set_missing(strategy.get("rollingUpdate") or {}, **values)}


def deployment(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = set_missing(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
        spec = fill_member(
            spec, "strategy", lambda strategy: _rolling_update(strategy, maxUnavailable="25%", maxSurge="25%")
        )
        return fill_member(spec, "template", pod_template)

    return fill_member(obj, "spec", fill)


def replica_set(obj: Raw) -> Raw:
    return fill_member(obj, "spec", lambda spec: fill_member(set_missing(spec, replicas=1), "template", pod_template))


def stateful_set(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = set_missing(
            spec,
            replicas=1,
            revisionHistoryLimit=10,
            podManagementPolicy="OrderedReady",
            persistentVolumeClaimRetentionPolicy={},
        )
        spec = fill_member(spec, "persistentVolumeClaimRetentionPolicy", _retention_policy)
        spec = fill_member(
            spec, "updateStrategy", lambda strategy: _rolling_update(strategy, partition=0, maxUnavailable=1)
        )
        spec = fill_items(spec, "volumeClaimTemplates", claim_template)
        return fill_member(spec, "template", pod_template)

    return fill_member(obj, "spec", fill)


def claim_template(claim: Raw) -> Raw:
    return set_missing(persistent_volume_claim(claim), apiVersion="v1", kind="PersistentVolumeClaim")


def _retention_policy(policy: Raw) -> Raw:
    return set_missing(policy, whenDeleted="Retain", whenScaled="Retain")


def daemon_set(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = set_missing(spec, revisionHistoryLimit=10)
        spec = fill_member(
            spec, "updateStrategy", lambda strategy: _rolling_update(strategy, maxUnavailable=1, maxSurge=0)
        )
        return fill_member(spec, "template", pod_template)

    def annotate(metadata: Raw) -> Raw:
        return fill_member(
            {"annotations": {}, **metadata},
            "annotations",
            lambda annotations: {_TEMPLATE_GENERATION: "1", **annotations},
        )

    return fill_member(fill_member(obj, "spec", fill), "metadata", annotate)


def replication_controller(obj: Raw) -> Raw:
    obj = replica_set(obj)
    spec = obj.get("spec") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if not labels:
        return obj
    metadata = obj.get("metadata") or {}
    spec = spec if spec.get("selector") else {**spec, "selector": labels}
    return {**obj, "metadata": metadata if metadata.get("labels") else {**metadata, "labels": labels}, "spec": spec}


def job(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec = {**spec, "completions": 1}
        has_limit_per_index = spec.get("backoffLimitPerIndex") is not None
        has_failure_policy = spec.get("podFailurePolicy") is not None
        spec = set_missing(
            spec,
            parallelism=1,
            backoffLimit=2147483647 if has_limit_per_index else 6,
            completionMode="NonIndexed",
            suspend=False,
            manualSelector=False,
            podReplacementPolicy="Failed" if has_failure_policy else "TerminatingOrFailed",
        )
        return fill_member(spec, "template", pod_template)

    obj = fill_member(obj, "spec", fill)
    labels = ((obj.get("spec") or {}).get("template") or {}).get("metadata", {}).get("labels")
    if labels and not (obj.get("metadata") or {}).get("labels"):
        obj = {**obj, "metadata": {**obj["metadata"], "labels": labels}}
    return obj


def with_job_selector(obj: Raw) -> Raw:
    """A Job that selects its pods by its own uid; call it once, on creation, when the uid is set."""
    spec, metadata = obj.get("spec") or {}, obj["metadata"]
    if spec.get("manualSelector"):
        return obj
    new_labels = {
        "batch.kubernetes.io/controller-uid": metadata["uid"],
        "batch.kubernetes.io/job-name": metadata["name"],
    }
    legacy_labels = {"controller-uid": metadata["uid"], "job-name": metadata["name"]}
    template = spec.get("template") or {}
    template_metadata = template.get("metadata") or {}
    labels = {**template_metadata.get("labels", {}), **new_labels, **legacy_labels}
    selector = spec.get("selector") or {}
    match_labels = {**selector.get("matchLabels", {}), "batch.kubernetes.io/controller-uid": metadata["uid"]}
    template = {**template, "metadata": {**template_metadata, "labels": labels}}
    if (metadata.get("labels") or {}) == (template_metadata.get("labels") or {}):
        # Labels that were copied from the template follow its change.
        obj = {**obj, "metadata": {**metadata, "labels": labels}}
    return {**obj, "spec": {**spec, "selector": {**selector, "matchLabels": match_labels}, "template": template}}


def cron_job(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = set_missing(
            spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1
        )
        return fill_member(spec, "jobTemplate", job_template)

    def job_template(template: Raw) -> Raw:
        return fill_member(template, "spec", lambda spec: fill_member(spec, "template", pod_template))

    return fill_member(obj, "spec", fill)


def _scaling_rules(rules: Raw, *, up: bool) -> Raw:
    policies = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
    if up:
        policies = [{"type": "Pods", "value": 4, "periodSeconds": 15}, *policies]
        rules = set_missing(rules, stabilizationWindowSeconds=0)
    return set_missing(rules, selectPolicy="Max", policies=policies)


def autoscaler(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
        spec = set_missing(spec, minReplicas=1, metrics=[{"type": "Resource", "resource": cpu}])
        return fill_member(spec, "behavior", behavior)

    def behavior(given: Raw) -> Raw:
        rules = {key: _scaling_rules(given.get(key) or {}, up=key == "scaleUp") for key in ("scaleUp", "scaleDown")}
        return {**given, **rules}

    return fill_member(obj, "spec", fill)
