"""One refusal per line, in the words of kube-apiserver."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trimtab.api.kinds
from api.kinds.native.native_objects import objects
from trimtab.api.field_errors import sentence
from trimtab.api.kind import find_kind, kinds
from trimtab.api.kinds.native import codec
from trimtab.api.kinds.native.fields import message_name
from trimtab.registry import discover

discover(trimtab.api.kinds)
Raw = dict[str, Any]


def made(api_version: str, kind: str, raw: Raw) -> Raw:
    declared = find_kind(api_version, kind)
    assert declared is not None
    obj = codec.read(message_name(api_version, kind), raw).body
    for fill in declared.defaults:
        obj = fill(obj)
    return obj


def refusals(api_version: str, kind: str, new: Raw, old: Raw | None = None) -> str:
    declared = find_kind(api_version, kind)
    assert declared is not None
    before = made(api_version, kind, old) if old is not None else None
    causes = [cause for check in declared.validators for cause in check(made(api_version, kind, new), before)]
    return sentence(causes) if causes else ""


POD: Raw = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "n"}]}}
WORKLOAD: Raw = {
    "metadata": {"name": "w"},
    "spec": {
        "selector": {"matchLabels": {"app": "w"}},
        "template": {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "c", "image": "n"}]}},
    },
}
JOB: Raw = {
    "metadata": {"name": "j"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "n"}]}}},
}
CRON: Raw = {"metadata": {"name": "c"}, "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": JOB["spec"]}}}
SERVICE: Raw = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
CONFIG: Raw = {"metadata": {"name": "c"}, "data": {"k": "v"}}
BUDGET: Raw = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {}}}
PRIORITY: Raw = {"metadata": {"name": "p"}, "value": 10}
ROLE: Raw = {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}
GRANT: Raw = {
    "metadata": {"name": "g"},
    "roleRef": {"kind": "Role", "name": "r"},
    "subjects": [{"kind": "User", "name": "u"}],
}
LEASE: Raw = {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 15}}
SCALER: Raw = {
    "metadata": {"name": "h"},
    "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "w"}},
}
INGRESS: Raw = {
    "metadata": {"name": "i"},
    "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}},
}
DEFINITION: Raw = {
    "metadata": {"name": "as.x.io"},
    "spec": {
        "group": "x.io",
        "scope": "Namespaced",
        "names": {"plural": "as", "kind": "A"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
HOOK: Raw = {
    "metadata": {"name": "h"},
    "webhooks": [
        {
            "name": "a.b.io",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://x/y"},
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
        }
    ],
}
CLAIM: Raw = {
    "metadata": {"name": "c"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
EVENT: Raw = {"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"namespace": "n", "name": "x"}}
GOOD = [
    ("v1", "Pod", POD),
    ("apps/v1", "Deployment", WORKLOAD),
    ("apps/v1", "StatefulSet", WORKLOAD),
    ("apps/v1", "DaemonSet", WORKLOAD),
    ("apps/v1", "ReplicaSet", WORKLOAD),
    ("batch/v1", "Job", JOB),
    ("batch/v1", "CronJob", CRON),
    ("v1", "Service", SERVICE),
    ("v1", "ConfigMap", CONFIG),
    ("v1", "Secret", {"metadata": {"name": "s"}, "data": {"k": "dg=="}}),
    ("policy/v1", "PodDisruptionBudget", BUDGET),
    ("scheduling.k8s.io/v1", "PriorityClass", PRIORITY),
    ("rbac.authorization.k8s.io/v1", "Role", ROLE),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", GRANT),
    ("coordination.k8s.io/v1", "Lease", LEASE),
    ("autoscaling/v2", "HorizontalPodAutoscaler", SCALER),
    ("networking.k8s.io/v1", "Ingress", INGRESS),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", DEFINITION),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", HOOK),
    ("v1", "PersistentVolumeClaim", CLAIM),
    ("v1", "Event", EVENT),
]


@pytest.mark.parametrize(("api_version", "kind", "raw"), GOOD, ids=lambda part: str(part)[:20])
def test_what_is_in_order_is_accepted(api_version: str, kind: str, raw: Raw) -> None:
    assert refusals(api_version, kind, raw) == ""
    assert refusals(api_version, kind, raw, raw) == ""


def changed(raw: Raw, *path: str | int, to: Any) -> Raw:
    copied: Any = copy.deepcopy(raw)
    place = copied
    for step in path[:-1]:
        place = place[step] if isinstance(step, int) else place.setdefault(step, {})
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return copied  # type: ignore[no-any-return]


TEMPLATE = ("spec", "template", "spec")
BAD: list[tuple[str, str, Raw, str]] = [
    (
        "apps/v1",
        "Deployment",
        changed(WORKLOAD, "spec", "replicas", to=-1),
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    ),
    ("apps/v1", "Deployment", changed(WORKLOAD, "spec", "selector", to=None), "spec.selector: Required value"),
    (
        "apps/v1",
        "Deployment",
        changed(WORKLOAD, "spec", "template", "metadata", "labels", to={"app": "x"}),
        'spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`',
    ),
    (
        "apps/v1",
        "Deployment",
        changed(WORKLOAD, *TEMPLATE, "containers", to=[]),
        "spec.template.spec.containers: Required value",
    ),
    (
        "apps/v1",
        "Deployment",
        changed(WORKLOAD, *TEMPLATE, "containers", 0, "image", to=None),
        "spec.template.spec.containers[0].image: Required value",
    ),
    (
        "apps/v1",
        "Deployment",
        changed(WORKLOAD, *TEMPLATE, "restartPolicy", to="Never"),
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ),
    (
        "apps/v1",
        "Deployment",
        changed(WORKLOAD, "spec", "strategy", to={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ),
    (
        "apps/v1",
        "Deployment",
        changed(WORKLOAD, "spec", "strategy", to={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
    ),
    (
        "v1",
        "Pod",
        changed(POD, "spec", "containers", to=[{"name": "c", "image": "n"}, {"name": "c", "image": "n"}]),
        'spec.containers[1].name: Duplicate value: "c"',
    ),
    (
        "v1",
        "Pod",
        changed(POD, "spec", "containers", 0, "volumeMounts", to=[{"name": "v", "mountPath": "/x"}]),
        'spec.containers[0].volumeMounts[0].name: Not found: "v"',
    ),
    (
        "v1",
        "Pod",
        changed(POD, "spec", "containers", 0, "resources", to={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    (
        "v1",
        "Pod",
        changed(POD, "spec", "containers", 0, "ports", to=[{"containerPort": 99999}]),
        "spec.containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive",
    ),
    (
        "v1",
        "Pod",
        changed(POD, "spec", "containers", 0, "imagePullPolicy", to="Sometimes"),
        (
            'spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", '
            '"IfNotPresent", "Never"'
        ),
    ),
    (
        "batch/v1",
        "Job",
        changed(JOB, *TEMPLATE, "restartPolicy", to="Always"),
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
    ),
    (
        "batch/v1",
        "CronJob",
        changed(CRON, "spec", "schedule", to="often"),
        'spec.schedule: Invalid value: "often": expected exactly 5 fields, found 1: [often]',
    ),
    (
        "v1",
        "Service",
        changed(SERVICE, "spec", "type", to="Mesh"),
        (
            'spec.type: Unsupported value: "Mesh": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
            '"NodePort"'
        ),
    ),
    ("v1", "Service", changed(SERVICE, "spec", "ports", to=[]), "spec.ports: Required value"),
    (
        "v1",
        "ConfigMap",
        changed(CONFIG, "data", to={"bad key": "v"}),
        (
            "data[bad key]: Invalid value: \"bad key\": a valid config key must consist of alphanumeric characters, '-', "
            "'_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        ),
    ),
    (
        "v1",
        "Secret",
        {"metadata": {"name": "s"}, "type": "kubernetes.io/tls"},
        "[data[tls.crt]: Required value, data[tls.key]: Required value]",
    ),
    (
        "policy/v1",
        "PodDisruptionBudget",
        changed(BUDGET, "spec", "maxUnavailable", to=1),
        (
            'spec: Invalid value: {"MinAvailable":1,"Selector":{},"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable '
            "cannot be both set"
        ),
    ),
    (
        "scheduling.k8s.io/v1",
        "PriorityClass",
        changed(PRIORITY, "value", to=2_000_000_000),
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
    ),
    (
        "rbac.authorization.k8s.io/v1",
        "Role",
        changed(ROLE, "rules", to=[{"verbs": [], "apiGroups": [""], "resources": ["pods"]}]),
        "rules[0].verbs: Required value: verbs must contain at least one value",
    ),
    (
        "coordination.k8s.io/v1",
        "Lease",
        changed(LEASE, "spec", "leaseDurationSeconds", to=0),
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
    ),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        changed(SCALER, "spec", "minReplicas", to=5),
        "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`",
    ),
    (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        changed(DEFINITION, "metadata", "name", to="x"),
        'metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group',
    ),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        changed(HOOK, "webhooks", 0, "name", to="short"),
        'webhooks[0].name: Invalid value: "short": should be a domain with at least three segments separated by dots',
    ),
    (
        "v1",
        "Event",
        changed(EVENT, "involvedObject", "namespace", to="other"),
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace',
    ),
    (
        "events.k8s.io/v1",
        "Event",
        {"metadata": {"name": "e", "namespace": "n"}, "regarding": {"namespace": "n"}, "reason": "Test"},
        '[eventTime: Required value, type: Invalid value: "": has invalid value: ]',
    ),
]


@pytest.mark.parametrize(("api_version", "kind", "raw", "text"), BAD, ids=lambda part: str(part)[:60])
def test_what_is_wrong_is_refused_in_kubernetes_words(api_version: str, kind: str, raw: Raw, text: str) -> None:
    assert refusals(api_version, kind, raw) == text


UPDATES: list[tuple[str, str, Raw, Callable[[Raw], Raw], str]] = [
    (
        "apps/v1",
        "Deployment",
        WORKLOAD,
        lambda raw: changed(
            changed(raw, "spec", "selector", "matchLabels", to={"app": "x"}),
            "spec",
            "template",
            "metadata",
            "labels",
            to={"app": "x"},
        ),
        'spec.selector: Invalid value: {"matchLabels":{"app":"x"}}: field is immutable',
    ),
    (
        "v1",
        "ConfigMap",
        {**CONFIG, "immutable": True},
        lambda raw: changed(raw, "data", to={"k": "other"}),
        "data: Forbidden: field is immutable when `immutable` is set",
    ),
    (
        "scheduling.k8s.io/v1",
        "PriorityClass",
        PRIORITY,
        lambda raw: changed(raw, "value", to=11),
        "value: Forbidden: may not be changed in an update.",
    ),
    (
        "v1",
        "Secret",
        {"metadata": {"name": "s"}, "type": "a"},
        lambda raw: changed(raw, "type", to="b"),
        'type: Invalid value: "b": field is immutable',
    ),
    (
        "batch/v1",
        "Job",
        JOB,
        lambda raw: changed(raw, "spec", "completions", to=7),
        "spec.completions: Invalid value: 7: field is immutable",
    ),
]


@pytest.mark.parametrize(("api_version", "kind", "raw", "change", "text"), UPDATES, ids=lambda part: str(part)[:20])
def test_what_may_not_change_stays(
    api_version: str, kind: str, raw: Raw, change: Callable[[Raw], Raw], text: str
) -> None:
    assert refusals(api_version, kind, change(raw), raw) == text


def test_a_running_pod_may_change_its_image_and_little_else() -> None:
    image = changed(POD, "spec", "containers", 0, "image", to="other")
    assert refusals("v1", "Pod", image, POD) == ""
    assert refusals("v1", "Pod", changed(POD, "spec", "nodeName", to="n"), POD).startswith(
        "spec: Forbidden: pod updates"
    )


def test_a_stateful_set_may_change_only_what_it_can_roll_out() -> None:
    assert refusals("apps/v1", "StatefulSet", changed(WORKLOAD, "spec", "replicas", to=3), WORKLOAD) == ""
    refused = refusals("apps/v1", "StatefulSet", changed(WORKLOAD, "spec", "serviceName", to="x"), WORKLOAD)
    assert refused.startswith("spec: Forbidden: updates to statefulset spec for fields other than 'replicas'")


NATIVE = [kind for kind in kinds.values() if not kind.custom and kind.validators and kind.name != "Cluster"]


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(NATIVE), st.data())
def test_no_object_can_upset_the_rules(kind: Any, data: st.DataObject) -> None:
    name = message_name(kind.api_version, kind.name)
    new, old = data.draw(objects(name)), data.draw(objects(name) | st.none())
    for fill in kind.defaults:
        new = fill(new)
    for check in kind.validators:
        assert all(cause.message for cause in check(new, old))


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}, ""),
        ({"scopeName": "PriorityClass", "operator": "Exists"}, ""),
        ({"scopeName": "BestEffort", "operator": "Exists"}, ""),
        (
            {"scopeName": "PriorityClass", "operator": "In"},
            "values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        ),
        (
            {"scopeName": "PriorityClass", "operator": "Exists", "values": ["high"]},
            "values: Invalid value: [\"high\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        ),
        (
            {"scopeName": "PriorityClass", "operator": "Is", "values": ["high"]},
            'operator: Invalid value: "Is": not a valid selector operator',
        ),
        ({"scopeName": "Class", "operator": "Exists"}, 'scopeName: Invalid value: "Class": unsupported scope'),
        (
            {"scopeName": "BestEffort", "operator": "In", "values": ["a"]},
            (
                "operator: Invalid value: \"In\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity"
            ),
        ),
    ],
)
def test_a_quota_says_which_priorities_it_means(rule: Raw, said: str) -> None:
    spec = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [rule]}}
    found = refusals("v1", "ResourceQuota", {"metadata": {"name": "q"}, "spec": spec})
    assert found == (f"spec.scopeSelector.matchExpressions.{said}" if said else "")
