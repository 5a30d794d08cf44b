"""The FlowSchemas and PriorityLevelConfigurations of a new API server, with the names and shares of Kubernetes."""

from collections.abc import Iterator
from typing import Any

from trimtab.api.kinds.native.flow_control import GROUP
from trimtab.api.kinds.native.rules.flow_control import FIXED_LEVELS, FIXED_SCHEMAS
from trimtab.api.value import Raw

_AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
_EVERYTHING: Raw = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}
_LEVELS = (
    ("system", 30, 33, 64, 6),
    ("node-high", 40, 25, 64, 6),
    ("leader-election", 10, 0, 16, 4),
    ("workload-high", 40, 50, 128, 6),
    ("workload-low", 100, 90, 128, 6),
    ("global-default", 20, 50, 128, 6),
)
"""Name, shares, lendable percent, queues and hand size of the suggested levels."""


def _object(kind: str, name: str, spec: Raw) -> Raw:
    metadata = {"name": name, "annotations": {_AUTO_UPDATE: "true"}}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec}


def mandatory_objects() -> Iterator[Raw]:
    """The objects without which no request could be classified; they are restored when somebody deletes them."""
    for name, spec in FIXED_LEVELS.items():
        yield _object("PriorityLevelConfiguration", name, spec)
    for name, spec in FIXED_SCHEMAS.items():
        yield _object("FlowSchema", name, spec)


def suggested_objects() -> Iterator[Raw]:
    """Objects that users may change; they are created again at the next start when they are missing."""
    for name, shares, lendable, queues, hand in _LEVELS:
        queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
        response = {"type": "Queue", "queuing": queuing}
        limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable}
        yield _object("PriorityLevelConfiguration", name, {"type": "Limited", "limited": limited})
    yield from _node_schemas()
    yield from _system_schemas()
    yield _schema("service-accounts", "workload-low", 9000, _groups("system:serviceaccounts"), _EVERYTHING)
    everybody = _groups("system:unauthenticated", "system:authenticated")
    yield _schema("global-default", "global-default", 9900, everybody, _EVERYTHING)
    probes = {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]}
    yield _schema("probes", "exempt", 2, everybody, probes, by="")


def _schema(name: str, level: str, precedence: int, subjects: list[Raw], rules: Raw, *, by: str = "ByUser") -> Raw:
    spec: dict[str, Any] = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    if by:
        spec["distinguisherMethod"] = {"type": by}
    return _object("FlowSchema", name, {**spec, "rules": [{"subjects": subjects, **rules}]})


def _groups(*names: str) -> list[Raw]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Raw]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


def _accounts(name: str = "*") -> list[Raw]:
    return [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": name}}]


def _resources(verbs: list[str], group: str, resources: list[str], namespaces: list[str], **more: Any) -> Raw:
    rule = {"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": namespaces, **more}
    return {"resourceRules": [rule]}


def _node_schemas() -> Iterator[Raw]:
    nodes = _groups("system:nodes")
    high = [
        _resources(["*"], "", ["nodes", "nodes/status"], ["*"], clusterScope=True)["resourceRules"][0],
        _resources(["*"], "coordination.k8s.io", ["leases"], ["*"])["resourceRules"][0],
    ]
    yield _schema("system-node-high", "node-high", 400, nodes, {"resourceRules": high})
    yield _schema("system-nodes", "system", 500, nodes, _EVERYTHING)


def _system_schemas() -> Iterator[Raw]:
    managers = _users("system:kube-controller-manager", "system:kube-scheduler")
    leases = _resources(["get", "create", "update"], "coordination.k8s.io", ["leases"], ["*"])
    yield _schema("system-leader-election", "leader-election", 100, managers, leases)
    yield _schema("workload-leader-election", "leader-election", 200, _accounts(), leases)
    endpoints = _resources(["get", "create", "update"], "", ["endpoints"], ["*"])
    writers = [*managers[:1], *_accounts("endpoint-controller"), *_accounts("endpointslicemirroring-controller")]
    yield _schema("endpoint-controller", "workload-high", 150, writers, endpoints)
    for user in managers:
        name = user["user"]["name"].removeprefix("system:")
        yield _schema(name, "workload-high", 800, [user], _EVERYTHING, by="ByNamespace")
    accounts = _groups("system:serviceaccounts:kube-system")
    name = "kube-system-service-accounts"
    yield _schema(name, "workload-high", 900, accounts, _EVERYTHING, by="ByNamespace")
