"""Objects and override policies for tests."""

from typing import Any

from trimtab.interpret.overrides.overrides import apply_overrides

CLUSTER = {"metadata": {"name": "m1", "labels": {"env": "prod"}}, "spec": {"region": "eu"}}


def deployment(**container: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ns", "labels": {"app": "web"}},
        "spec": {
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "main", "image": "nginx:1"} | container]}},
        },
    }


def policy(name: str = "op", namespace: str = "ns", target: Any = None, **overriders: Any) -> dict[str, Any]:
    rule = {"overriders": overriders} | ({"targetCluster": target} if target else {})
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"metadata": metadata, "spec": {"overrideRules": [rule]}}


def apply_policy(obj: dict[str, Any], **overriders: Any) -> dict[str, Any]:
    return apply_overrides(obj, CLUSTER, [policy(**overriders)]).obj


def plaintext(path: str, operator: str, value: Any = None) -> list[dict[str, Any]]:
    return [{"path": path, "operator": operator, "value": value}]


def label(value: str, operator: str = "add") -> list[dict[str, Any]]:
    return [{"operator": operator, "value": {"site": value}}]
