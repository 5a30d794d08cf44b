"""Defaults that kube-apiserver sets for fields missing in native objects.

Every function takes an object that was read by `codec` and returns a new one; its argument is not changed.
"""

import base64
from collections.abc import Callable
from typing import Any

from trimtab.api.value import Raw

Fill = Callable[[Raw], Raw]
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_QUEUING_DEFAULTS = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def _fill_member(obj: Raw, key: str, fill: Fill) -> Raw:
    """The object with `fill` applied to its member `key`, if there is one."""
    member = obj.get(key)
    return {**obj, key: fill(member)} if isinstance(member, dict) else obj


def _fill_items(obj: Raw, key: str, fill: Fill) -> Raw:
    items = obj.get(key)
    return {**obj, key: [fill(item) for item in items]} if items else obj


def _set_missing(obj: Raw, **values: Any) -> Raw:
    """The object with these members set where they are missing."""
    missing = {key: value for key, value in values.items() if obj.get(key) is None}
    return {**obj, **missing} if missing else obj


# containers


def _image_pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    if "@" in name:
        return "IfNotPresent"
    _, colon, tag = name.partition(":")
    return "Always" if not colon or tag == "latest" else "IfNotPresent"


def _http_get(action: Raw) -> Raw:
    return _set_missing(action, path="/", scheme="HTTP")


def _probe(probe: Raw) -> Raw:
    probe = _set_missing(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    probe = _fill_member(probe, "grpc", lambda action: _set_missing(action, service=""))
    return _fill_member(probe, "httpGet", _http_get)


def _lifecycle_handler(handler: Raw) -> Raw:
    return _fill_member(handler, "httpGet", _http_get)


def _lifecycle(lifecycle: Raw) -> Raw:
    return _fill_member(_fill_member(lifecycle, "postStart", _lifecycle_handler), "preStop", _lifecycle_handler)


def _field_ref(source: Raw) -> Raw:
    return _fill_member(source, "fieldRef", lambda ref: _set_missing(ref, apiVersion="v1"))


def _env_variable(variable: Raw) -> Raw:
    return _fill_member(variable, "valueFrom", _field_ref)


def _port(port: Raw) -> Raw:
    return _set_missing(port, protocol="TCP")


def container(spec: Raw) -> Raw:
    spec = _set_missing(
        spec,
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy=_image_pull_policy(spec.get("image", "")),
    )
    spec = _fill_items(_fill_items(spec, "ports", _port), "env", _env_variable)
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        spec = _fill_member(spec, key, _probe)
    return _fill_member(spec, "lifecycle", _lifecycle)


# volumes


def _default_mode(source: Raw) -> Raw:
    return _set_missing(source, defaultMode=420)


def _downward_api(source: Raw) -> Raw:
    return _fill_items(_default_mode(source), "items", _field_ref)


def _projection(source: Raw) -> Raw:
    source = _fill_member(source, "serviceAccountToken", lambda token: _set_missing(token, expirationSeconds=3600))
    return _fill_member(source, "downwardAPI", lambda part: _fill_items(part, "items", _field_ref))


def _projected_volume(source: Raw) -> Raw:
    return _fill_items(_default_mode(source), "sources", _projection)


def _ephemeral_volume(source: Raw) -> Raw:
    def claim(template: Raw) -> Raw:
        return _fill_member(template, "spec", _claim_spec)

    return _fill_member(source, "volumeClaimTemplate", claim)


_VOLUME_DEFAULTS: dict[str, Fill] = {
    "configMap": _default_mode,
    "secret": _default_mode,
    "downwardAPI": _downward_api,
    "projected": _projected_volume,
    "ephemeral": _ephemeral_volume,
    "hostPath": lambda source: _set_missing(source, type=""),
    "iscsi": lambda source: _set_missing(source, iscsiInterface="default"),
    "rbd": lambda source: _set_missing(source, pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azureDisk": lambda source: _set_missing(
        source, cachingMode="ReadWrite", fsType="ext4", kind="Shared", readOnly=False
    ),
    "scaleIO": lambda source: _set_missing(source, storageMode="ThinProvisioned", fsType="xfs"),
}


def _volume_sources(volume: Raw) -> Raw:
    for key, fill in _VOLUME_DEFAULTS.items():
        volume = _fill_member(volume, key, fill)
    return volume


def _volume(volume: Raw) -> Raw:
    if set(volume) <= {"name"}:
        return {**volume, "emptyDir": {}}
    return _volume_sources(volume)


# pods


def pod_spec(spec: Raw) -> Raw:
    spec = _set_missing(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec = {**spec, "serviceAccountName": account, "serviceAccount": account}
    for key in ("initContainers", "containers", "ephemeralContainers"):
        spec = _fill_items(spec, key, container)
    if spec.get("hostNetwork"):
        for key in ("initContainers", "containers"):
            spec = _fill_items(spec, key, _host_ports)
    return _fill_items(spec, "volumes", _volume)


def _host_ports(spec: Raw) -> Raw:
    return _fill_items(spec, "ports", lambda port: _set_missing(port, hostPort=port.get("containerPort", 0)))


def _requests_from_limits(spec: Raw) -> Raw:
    """A container with a limit but no request for a resource requests the limit."""

    def fill(resources: Raw) -> Raw:
        limits = resources.get("limits")
        return {**resources, "requests": {**limits, **resources.get("requests", {})}} if limits else resources

    return _fill_member(spec, "resources", fill)


def pod(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = _set_missing(pod_spec(spec), enableServiceLinks=True)
        return _fill_items(
            _fill_items(spec, "containers", _requests_from_limits), "initContainers", _requests_from_limits
        )

    return _fill_member(obj, "spec", fill)


def pod_template(template: Raw) -> Raw:
    return _fill_member(template, "spec", pod_spec)


def pod_template_object(obj: Raw) -> Raw:
    return _fill_member(obj, "template", pod_template)


# workloads


def _rolling_update(strategy: Raw, **values: Any) -> Raw:
    strategy = _set_missing(strategy, type="RollingUpdate")
    if strategy["type"] != "RollingUpdate":
        return strategy
    return {**strategy, "rollingUpdate": _set_missing(strategy.get("rollingUpdate") or {}, **values)}


def deployment(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = _set_missing(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
        spec = _fill_member(
            spec, "strategy", lambda strategy: _rolling_update(strategy, maxUnavailable="25%", maxSurge="25%")
        )
        return _fill_member(spec, "template", pod_template)

    return _fill_member(obj, "spec", fill)


def replica_set(obj: Raw) -> Raw:
    return _fill_member(
        obj, "spec", lambda spec: _fill_member(_set_missing(spec, replicas=1), "template", pod_template)
    )


def stateful_set(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = _set_missing(
            spec,
            replicas=1,
            revisionHistoryLimit=10,
            podManagementPolicy="OrderedReady",
            persistentVolumeClaimRetentionPolicy={},
        )
        spec = _fill_member(spec, "persistentVolumeClaimRetentionPolicy", _retention_policy)
        spec = _fill_member(
            spec, "updateStrategy", lambda strategy: _rolling_update(strategy, partition=0, maxUnavailable=1)
        )
        spec = _fill_items(spec, "volumeClaimTemplates", claim_template)
        return _fill_member(spec, "template", pod_template)

    return _fill_member(obj, "spec", fill)


def claim_template(claim: Raw) -> Raw:
    return _set_missing(persistent_volume_claim(claim), apiVersion="v1", kind="PersistentVolumeClaim")


def _retention_policy(policy: Raw) -> Raw:
    return _set_missing(policy, whenDeleted="Retain", whenScaled="Retain")


def daemon_set(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = _set_missing(spec, revisionHistoryLimit=10)
        spec = _fill_member(
            spec, "updateStrategy", lambda strategy: _rolling_update(strategy, maxUnavailable=1, maxSurge=0)
        )
        return _fill_member(spec, "template", pod_template)

    def annotate(metadata: Raw) -> Raw:
        return _fill_member(
            {"annotations": {}, **metadata},
            "annotations",
            lambda annotations: {_TEMPLATE_GENERATION: "1", **annotations},
        )

    return _fill_member(_fill_member(obj, "spec", fill), "metadata", annotate)


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
        spec = _set_missing(
            spec,
            parallelism=1,
            backoffLimit=2147483647 if has_limit_per_index else 6,
            completionMode="NonIndexed",
            suspend=False,
            manualSelector=False,
            podReplacementPolicy="Failed" if has_failure_policy else "TerminatingOrFailed",
        )
        return _fill_member(spec, "template", pod_template)

    obj = _fill_member(obj, "spec", fill)
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
        spec = _set_missing(
            spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1
        )
        return _fill_member(spec, "jobTemplate", job_template)

    def job_template(template: Raw) -> Raw:
        return _fill_member(template, "spec", lambda spec: _fill_member(spec, "template", pod_template))

    return _fill_member(obj, "spec", fill)


# network


def service(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = _set_missing(spec, type="ClusterIP", sessionAffinity="None")
        if spec["sessionAffinity"] == "ClientIP" and not spec.get("sessionAffinityConfig"):
            spec = {**spec, "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}
        if spec["type"] in ("ClusterIP", "NodePort", "LoadBalancer"):
            spec = _set_missing(spec, internalTrafficPolicy="Cluster")
        if spec["type"] in ("NodePort", "LoadBalancer"):
            spec = _set_missing(spec, externalTrafficPolicy="Cluster")
        if spec["type"] == "LoadBalancer":
            spec = _set_missing(spec, allocateLoadBalancerNodePorts=True)
        return _fill_items(spec, "ports", service_port)

    def service_port(port: Raw) -> Raw:
        port = _set_missing(port, protocol="TCP")
        return port if port.get("targetPort") not in (None, 0, "") else {**port, "targetPort": port.get("port", 0)}

    return _fill_member(obj, "spec", fill)


def endpoints(obj: Raw) -> Raw:
    return _fill_items(obj, "subsets", lambda subset: _fill_items(subset, "ports", _port))


def endpoint_slice(obj: Raw) -> Raw:
    return _fill_items(obj, "ports", lambda port: _set_missing(port, name="", protocol="TCP"))


def network_policy(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        directions = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        spec = _set_missing(spec, policyTypes=directions)
        for key in ("ingress", "egress"):
            spec = _fill_items(spec, key, lambda rule: _fill_items(rule, "ports", _port))
        return spec

    return _fill_member(obj, "spec", fill)


# configuration and storage


def secret(obj: Raw) -> Raw:
    obj = _set_missing(obj, type="Opaque")
    string_data = obj.get("stringData")
    if not string_data:
        return obj
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in string_data.items()}
    without_string_data = {key: value for key, value in obj.items() if key != "stringData"}
    return {**without_string_data, "data": {**obj.get("data", {}), **encoded}}


def namespace(obj: Raw) -> Raw:
    metadata = obj.get("metadata") or {}
    name = metadata.get("name", "")
    labels = metadata.get("labels") or {}
    if not name or labels.get("kubernetes.io/metadata.name") == name:
        return obj
    return {**obj, "metadata": {**metadata, "labels": {**labels, "kubernetes.io/metadata.name": name}}}


def _claim_spec(spec: Raw) -> Raw:
    return _set_missing(spec, volumeMode="Filesystem")


def persistent_volume_claim(obj: Raw) -> Raw:
    obj = _fill_member(obj, "spec", _claim_spec)
    return {**obj, "status": _set_missing(obj.get("status") or {}, phase="Pending")}


def persistent_volume(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = _set_missing(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
        return _volume_sources(spec)

    obj = _fill_member(obj, "spec", fill)
    return {**obj, "status": _set_missing(obj.get("status") or {}, phase="Pending")}


def storage_class(obj: Raw) -> Raw:
    return _set_missing(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def limit_range(obj: Raw) -> Raw:
    def fill(item: Raw) -> Raw:
        if item.get("type") != "Container":
            return item
        limits = {**item.get("max", {}), **item.get("default", {})}
        requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
        return item | ({"default": limits} if limits else {}) | ({"defaultRequest": requests} if requests else {})

    return _fill_member(obj, "spec", lambda spec: _fill_items(spec, "limits", fill))


def node(obj: Raw) -> Raw:
    def fill(status: Raw) -> Raw:
        capacity = status.get("capacity")
        return {**status, "allocatable": capacity} if capacity and not status.get("allocatable") else status

    return _fill_member(obj, "status", fill)


def priority_class(obj: Raw) -> Raw:
    return _set_missing(obj, preemptionPolicy="PreemptLowerPriority")


# access


def _role_ref(ref: Raw) -> Raw:
    return ref if ref.get("apiGroup") else {**ref, "apiGroup": "rbac.authorization.k8s.io"}


def _subject(subject: Raw) -> Raw:
    if subject.get("apiGroup") or subject.get("kind") not in ("User", "Group"):
        return subject
    return {**subject, "apiGroup": "rbac.authorization.k8s.io"}


def role_binding(obj: Raw) -> Raw:
    return _fill_items(_fill_member(obj, "roleRef", _role_ref), "subjects", _subject)


# autoscaling


def _scaling_rules(rules: Raw, *, up: bool) -> Raw:
    policies = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
    if up:
        policies = [{"type": "Pods", "value": 4, "periodSeconds": 15}, *policies]
        rules = _set_missing(rules, stabilizationWindowSeconds=0)
    return _set_missing(rules, selectPolicy="Max", policies=policies)


def autoscaler(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
        spec = _set_missing(spec, minReplicas=1, metrics=[{"type": "Resource", "resource": cpu}])
        return _fill_member(spec, "behavior", behavior)

    def behavior(given: Raw) -> Raw:
        rules = {key: _scaling_rules(given.get(key) or {}, up=key == "scaleUp") for key in ("scaleUp", "scaleDown")}
        return {**given, **rules}

    return _fill_member(obj, "spec", fill)


# extensions


def _webhook(webhook: Raw, **more: Any) -> Raw:
    webhook = _set_missing(
        webhook,
        failurePolicy="Fail",
        matchPolicy="Equivalent",
        namespaceSelector={},
        objectSelector={},
        timeoutSeconds=10,
        **more,
    )
    webhook = _fill_items(webhook, "rules", lambda rule: _set_missing(rule, scope="*"))
    return _fill_member(webhook, "clientConfig", _client_config)


def _client_config(client: Raw) -> Raw:
    return _fill_member(client, "service", lambda target: _set_missing(target, port=443))


def validating_webhooks(obj: Raw) -> Raw:
    return _fill_items(obj, "webhooks", _webhook)


def mutating_webhooks(obj: Raw) -> Raw:
    return _fill_items(obj, "webhooks", lambda webhook: _webhook(webhook, reinvocationPolicy="Never"))


def _match_resources(given: Raw) -> Raw:
    def rule(one: Raw) -> Raw:
        return _set_missing(one, scope="*")

    given = _set_missing(given, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    return _fill_items(_fill_items(given, "resourceRules", rule), "excludeResourceRules", rule)


def validating_admission_policy(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        return _fill_member(_set_missing(spec, failurePolicy="Fail"), "matchConstraints", _match_resources)

    return _fill_member(obj, "spec", fill)


def validating_admission_policy_binding(obj: Raw) -> Raw:
    return _fill_member(obj, "spec", lambda spec: _fill_member(spec, "matchResources", _match_resources))


def custom_resource_definition(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = _set_missing(spec, conversion={"strategy": "None"})
        spec = _fill_member(spec, "conversion", conversion)
        return _fill_member(spec, "names", names)

    def conversion(given: Raw) -> Raw:
        return _fill_member(given, "webhook", lambda webhook: _fill_member(webhook, "clientConfig", _client_config))

    def names(given: Raw) -> Raw:
        kind = given.get("kind", "")
        singular, list_kind = given.get("singular") or kind.lower(), given.get("listKind") or f"{kind}List"
        return {**given, "singular": singular, "listKind": list_kind} if kind else given

    return _fill_member(obj, "spec", fill)


def api_service(obj: Raw) -> Raw:
    return _fill_member(obj, "spec", _client_config)


def flow_schema(obj: Raw) -> Raw:
    spec = obj.get("spec")
    if not isinstance(spec, dict) or spec.get("matchingPrecedence"):
        return obj
    return {**obj, "spec": {**spec, "matchingPrecedence": 1000}}


def priority_level_configuration(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        if spec.get("type") == "Exempt":
            spec = _set_missing(spec, exempt={})
        spec = _fill_member(spec, "exempt", lambda e: _set_missing(e, nominalConcurrencyShares=0, lendablePercent=0))
        return _fill_member(spec, "limited", fill_limited)

    def fill_limited(given: Raw) -> Raw:
        given = _set_missing(given, nominalConcurrencyShares=30, lendablePercent=0)
        return _fill_member(given, "limitResponse", lambda response: _fill_member(response, "queuing", fill_queuing))

    def fill_queuing(given: Raw) -> Raw:
        return {key: given.get(key) or number for key, number in _QUEUING_DEFAULTS.items()}

    return _fill_member(obj, "spec", fill)
