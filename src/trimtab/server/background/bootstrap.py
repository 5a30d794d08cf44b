"""The initial objects of a new API server: namespaces, roles and priority classes."""

from collections.abc import Iterator
from typing import Any

from trimtab.api.value import Raw

_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_BOOTSTRAP_LABEL = "kubernetes.io/bootstrapping"
_HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_ISSUER = [
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
]
_DISCOVERY = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
]
_CORE = [
    "bindings",
    "configmaps",
    "endpoints",
    "events",
    "limitranges",
    "persistentvolumeclaims",
    "pods",
    "pods/log",
    "pods/status",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "resourcequotas",
    "resourcequotas/status",
    "serviceaccounts",
    "services",
    "services/status",
]
_READ_ONLY = {"bindings", "controllerrevisions", "limitranges", "resourcequotas"}
"""What limits the users of a namespace, or bypasses the scheduler: `edit` and `admin` may read it."""
_GROUPS: dict[str, list[str]] = {
    "apps": [
        "controllerrevisions",
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ],
    "autoscaling": ["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
    "batch": ["cronjobs", "cronjobs/status", "jobs", "jobs/status"],
    "networking.k8s.io": ["ingresses", "ingresses/status", "networkpolicies"],
    "policy": ["poddisruptionbudgets", "poddisruptionbudgets/status"],
    "coordination.k8s.io": ["leases"],
    "events.k8s.io": ["events"],
}

_FLEET_KINDS = (
    (
        [
            *("policy.karmada.io", "apps.karmada.io", "autoscaling.karmada.io", "networking.karmada.io"),
            *("trimtab.dev", "cluster.open-cluster-management.io"),
        ],
        ["*"],
    ),
    (
        ["work.karmada.io"],
        [
            *("resourcebindings", "resourcebindings/status"),
            *("clusterresourcebindings", "clusterresourcebindings/status"),
        ],
    ),
    (["cluster.karmada.io"], ["clusters", "clusters/status"]),
)
"""Groups and resources of a control plane that readers of a namespace, or of everything, see."""
_USERS_WRITE = (
    ("policy.karmada.io", ["propagationpolicies", "overridepolicies"]),
    ("trimtab.dev", ["disruptionbudgets"]),
    ("cluster.open-cluster-management.io", ["placements", "managedclustersetbindings"]),
)


def _rule(verbs: list[str], group: str, resources: list[str]) -> Raw:
    return {"verbs": verbs, "apiGroups": [group], "resources": resources}


def _view_rules() -> list[Raw]:
    core = _rule(_READ, "", [*_CORE, "namespaces", "namespaces/status"])
    return [core, *(_rule(_READ, group, resources) for group, resources in _GROUPS.items())]


def _edit_rules() -> list[Raw]:
    core = [
        *_writable(_CORE),
        "secrets",
        "pods/eviction",
        "pods/exec",
    ]
    rules = [
        _rule([*_READ, *_WRITE], "", [*core, "pods/attach", "pods/portforward", "pods/proxy", "serviceaccounts/token"])
    ]
    rules.append(_rule(["impersonate"], "", ["serviceaccounts"]))
    return rules + [_rule([*_READ, *_WRITE], group, _writable(resources)) for group, resources in _GROUPS.items()]


def _writable(resources: list[str]) -> list[str]:
    return [name for name in resources if name not in _READ_ONLY and not name.endswith(("/status", "/log"))]


def _admin_rules() -> list[Raw]:
    return [
        _rule([*_READ, *_WRITE], _RBAC, ["roles", "rolebindings"]),
        _rule(["create"], "authorization.k8s.io", ["localsubjectaccessreviews"]),
    ]


def _role(name: str, rules: list[Raw], *, label: str = "", aggregates: str = "") -> Raw:
    labels = {_BOOTSTRAP_LABEL: "rbac-defaults"}
    if label:
        labels[f"{_RBAC}/aggregate-to-{label}"] = "true"
    role: Raw = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels, "annotations": {f"{_RBAC}/autoupdate": "true"}},
        "rules": rules,
    }
    if aggregates:
        selector = {"matchLabels": {f"{_RBAC}/aggregate-to-{aggregates}": "true"}}
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    return role


def _binding(name: str, *groups: str) -> Raw:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {
            "name": name,
            "labels": {_BOOTSTRAP_LABEL: "rbac-defaults"},
            "annotations": {f"{_RBAC}/autoupdate": "true"},
        },
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group} for group in groups],
    }


def _nonresource_rules(paths: list[str]) -> list[Raw]:
    return [{"verbs": ["get"], "nonResourceURLs": paths}]


def _priority_class(name: str, value: int, text: str) -> Raw:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": text,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _roles() -> Iterator[Raw]:
    everything: Any = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    yield _role("cluster-admin", [everything, {"verbs": ["*"], "nonResourceURLs": ["*"]}])
    yield _role("admin", [], aggregates="admin")
    yield _role("edit", [], aggregates="edit", label="admin")
    yield _role("view", [], aggregates="view", label="edit")
    yield _role("system:aggregate-to-admin", [*_admin_rules(), *_edit_rules(), *_view_rules()], label="admin")
    yield _role("system:aggregate-to-edit", [*_edit_rules(), *_view_rules()], label="edit")
    yield _role("system:aggregate-to-view", _view_rules(), label="view")
    yield _role("system:discovery", _nonresource_rules(_DISCOVERY))
    yield _role("system:public-info-viewer", _nonresource_rules(_HEALTH))
    reviews = _rule(["create"], "authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"])
    yield _role("system:basic-user", [reviews, _rule(["create"], "authentication.k8s.io", ["selfsubjectreviews"])])
    yield _role("system:service-account-issuer-discovery", _nonresource_rules(_ISSUER))
    yield _role("system:monitoring", _nonresource_rules(["/healthz", "/livez", "/metrics", "/metrics/slis", "/readyz"]))


def fleet_roles() -> Iterator[Raw]:
    """Roles by which `view`, `edit` and `admin` include the kinds of a control plane; the chart has the same.

    Works and ManifestWorks are left out: they contain propagated Secrets, which `view` does not read.
    """
    reads = [{"apiGroups": groups, "resources": resources, "verbs": _READ} for groups, resources in _FLEET_KINDS]
    yield _role("trimtab-view", reads, label="view")
    writes = [{"apiGroups": [group], "resources": resources, "verbs": _WRITE} for group, resources in _USERS_WRITE]
    yield _role("trimtab-edit", writes, label="edit")


def bootstrap_objects() -> Iterator[Raw]:
    """All initial objects, in an order in which they can be created."""
    for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    yield from _roles()
    yield _binding("cluster-admin", "system:masters")
    yield _binding("system:discovery", "system:authenticated")
    yield _binding("system:basic-user", "system:authenticated")
    yield _binding("system:public-info-viewer", "system:authenticated", "system:unauthenticated")
    yield _binding("system:service-account-issuer-discovery", "system:serviceaccounts")
    yield _binding("system:monitoring", "system:monitoring")
    for name, value, role in (
        ("system-cluster-critical", 2_000_000_000, "cluster"),
        ("system-node-critical", 2_000_001_000, "node"),
    ):
        yield _priority_class(name, value, f"For pods without which the {role} does not work.")
