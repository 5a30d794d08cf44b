"""Objects that the checks accept or refuse, for the comparison of all places where checks are enforced."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trimtab.api.value import Raw

COMPAT = Path(__file__).parents[2] / "compat"
SELECTOR: Raw = {"apiVersion": "apps/v1", "kind": "Deployment"}
LONG_NAME = "x" * 64


class Case(NamedTuple):
    """An object, or a change of one."""

    name: str
    obj: Raw
    old: Raw | None = None


def policy(kind: str = "PropagationPolicy", *, labels: Raw | None = None, **spec: Any) -> Raw:
    metadata: Raw = {"name": "p", **({"namespace": "default"} if not kind.startswith("Cluster") else {})}
    body = {"resourceSelectors": [SELECTOR], **spec}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": {**metadata, **({"labels": labels} if labels else {})},
        "spec": body,
    }


def recorded_cases() -> Iterator[Case]:
    """The recorded validations of Karmada's webhook."""
    with gzip.open(COMPAT / "golden" / "karmada-validation.jsonl.gz", "rt") as lines:
        for line in lines:
            recorded = json.loads(line)
            yield Case(recorded["id"], policy(placement=recorded["placement"]))


def _failover(**application: Any) -> Raw:
    return {"application": {"decisionConditions": {"tolerationSeconds": 5}, **application}}


def propagation_cases() -> Iterator[Case]:
    rules = {"rules": [{"aliasLabelName": "not a label", "jsonPath": "{.a}"}]}
    specs: dict[str, Raw] = {
        "empty": {},
        "failover": {"failover": _failover()},
        "failover without dependencies": {"failover": _failover(), "propagateDeps": False},
        "negative toleration": {"failover": _failover(decisionConditions={"tolerationSeconds": -1})},
        "unknown state": {"failover": _failover(decisionConditions={"healthyState": ["Sick"]})},
        "no state": {"failover": _failover(decisionConditions={"healthyState": []})},
        "grace period": {"failover": _failover(purgeMode="Gracefully", gracePeriodSeconds=60)},
        "grace period of direct purge": {"failover": _failover(purgeMode="Directly", gracePeriodSeconds=60)},
        "grace period of zero": {"failover": _failover(gracePeriodSeconds=0)},
        "alias label": {"failover": _failover(statePreservation=rules)},
        "alias label of clusters": {"failover": {"cluster": {"statePreservation": rules}}},
        "preemption": {"preemption": "Always"},
        "preemption by name": {"preemption": "Always", "resourceSelectors": [{**SELECTOR, "name": "a"}]},
        "suspension": {"suspension": {"dispatching": True}},
        "suspension of clusters": {"suspension": {"dispatchingOnClusters": {"clusterNames": ["m1"]}}},
        "suspension of both": {"suspension": {"dispatching": True, "dispatchingOnClusters": {"clusterNames": ["m1"]}}},
        "many affinities": {
            "placement": {"clusterAffinities": [{"affinityName": f"a{n}", "clusterNames": ["m1"]} for n in range(65)]}
        },
        "many spread constraints": {"placement": {"spreadConstraints": [{"spreadByLabel": "a"}] * 65}},
        "long affinity label": {"placement": {"workloadAffinity": {"affinity": {"groupByLabelKey": LONG_NAME}}}},
    }
    for kind in ("PropagationPolicy", "ClusterPropagationPolicy"):
        for name, spec in specs.items():
            yield Case(f"{kind}: {name}", policy(kind, **spec))
        yield Case(f"{kind}: other scheduler", policy(kind, schedulerName="b"), policy(kind, schedulerName="a"))
        label = "propagationpolicy.karmada.io/permanent-id"
        for after in ({label: "1"}, {label: "2"}, {}):
            yield Case(
                f"{kind}: labels {after}", policy(kind, labels=after, priority=1), policy(kind, labels={label: "1"})
            )
    for namespace in ("", "default", "other"):
        selectors = [{**SELECTOR, "namespace": namespace}]
        for kind in ("PropagationPolicy", "OverridePolicy"):
            yield Case(f"{kind}: namespace {namespace!r}", policy(kind, resourceSelectors=selectors))


def override_cases() -> Iterator[Case]:
    operation = {"subPath": "/a", "operator": "add", "value": 1}
    field: Raw = {"fieldPath": "/data/a", "json": [operation]}
    overriders: dict[str, Raw] = {
        "labels": {"labelsOverrider": [{"operator": "add", "value": {"a.b/c": "d"}}]},
        "label key": {"labelsOverrider": [{"operator": "add", "value": {"not a key": "d"}}]},
        "long label key": {"labelsOverrider": [{"operator": "add", "value": {LONG_NAME: "d"}}]},
        "label value": {"labelsOverrider": [{"operator": "add", "value": {"a": "not a value"}}]},
        "annotations": {"annotationsOverrider": [{"operator": "add", "value": {"A.b/c": "any value"}}]},
        "annotation key": {"annotationsOverrider": [{"operator": "add", "value": {"a b": "any value"}}]},
        "image": {"imageOverrider": [{"predicate": {"path": "/a/b"}, "component": "Tag", "operator": "remove"}]},
        "image path": {"imageOverrider": [{"predicate": {"path": "a"}, "component": "Tag", "operator": "remove"}]},
        "image escape": {"imageOverrider": [{"predicate": {"path": "/~2"}, "component": "Tag", "operator": "remove"}]},
        "field": {"fieldOverrider": [field]},
        "field path": {"fieldOverrider": [{**field, "fieldPath": "a"}]},
        "field without document": {"fieldOverrider": [{"fieldPath": "/a"}]},
        "field with both": {"fieldOverrider": [{**field, "yaml": [operation]}]},
        "sub path": {"fieldOverrider": [{**field, "json": [{**operation, "subPath": "a"}]}]},
        "missing value": {"fieldOverrider": [{**field, "json": [{"subPath": "/a", "operator": "replace"}]}]},
        "value of removal": {"fieldOverrider": [{**field, "json": [{**operation, "operator": "remove"}]}]},
        "removal": {"fieldOverrider": [{**field, "json": [{"subPath": "/a", "operator": "remove"}]}]},
    }
    target = {"clusterNames": ["m1"]}
    wrong_target = {"fieldSelector": {"matchExpressions": [{"key": "color", "operator": "In", "values": ["red"]}]}}
    for kind in ("OverridePolicy", "ClusterOverridePolicy"):
        for name, one in overriders.items():
            yield Case(f"{kind}: {name}", policy(kind, overriders=one))
            yield Case(f"{kind}: rule with {name}", policy(kind, overrideRules=[{"overriders": one}]))
        rules = [{"overriders": overriders["labels"]}]
        yield Case(f"{kind}: both forms", policy(kind, overrideRules=rules, overriders=overriders["labels"]))
        yield Case(f"{kind}: rules and target", policy(kind, overrideRules=rules, targetCluster=target))
        yield Case(f"{kind}: rules and empty target", policy(kind, overrideRules=rules, targetCluster={}))
        yield Case(f"{kind}: target", policy(kind, targetCluster=target))
        yield Case(f"{kind}: unknown field", policy(kind, targetCluster=wrong_target))
        yield Case(
            f"{kind}: unknown field of rule", policy(kind, overrideRules=[{**rules[0], "targetCluster": wrong_target}])
        )


def _ocm(kind: str, name: str, spec: Raw) -> Raw:
    version = "v1" if kind == "ManagedCluster" else "v1beta2"
    namespace = {} if kind == "ManagedCluster" else {"namespace": "default"}
    return {
        "apiVersion": f"cluster.open-cluster-management.io/{version}",
        "kind": kind,
        "metadata": {"name": name, **namespace},
        "spec": spec,
    }


def other_cases() -> Iterator[Case]:
    yield Case("set binding", _ocm("ManagedClusterSetBinding", "a", {"clusterSet": "a"}))
    yield Case("set binding of another set", _ocm("ManagedClusterSetBinding", "a", {"clusterSet": "b"}))
    for url in ("https://a", "http://a"):
        yield Case(url, _ocm("ManagedCluster", "a", {"managedClusterClientConfigs": [{"url": url}]}))
    yield Case("dots", _ocm("ManagedCluster", "a.b", {"managedClusterClientConfigs": [{"url": "https://a"}]}))
    yield Case("dots without configuration", _ocm("ManagedCluster", "a.b", {}))
    taint = {"key": "a", "effect": "NoSchedule"}
    for name, taints in {
        "taint": [taint],
        "taint twice": [taint, taint],
        "taint key": [{**taint, "key": "a b"}],
        "taint value": [{**taint, "value": "a b"}],
        "taint effect": [{**taint, "effect": "Prefer"}],
    }.items():
        yield Case(name, policy("ClusterTaintPolicy", taints=taints) | {"spec": {"taints": taints}})
    yield from _service_cases()
    yield from _binding_cases()


def _service_cases() -> Iterator[Case]:
    def service(name: str = "web", **spec: Any) -> Raw:
        return {
            "apiVersion": "networking.karmada.io/v1alpha1",
            "kind": "MultiClusterService",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"types": ["CrossCluster"], **spec},
        }

    yield Case("service", service())
    yield Case("service name", service("1web"))
    yield Case("service types", service(types=["CrossCluster", "LoadBalancer"]))
    yield Case("changed service type", service(types=["LoadBalancer"]), service())
    yield Case("service port", service(ports=[{"port": 0}]))
    yield Case("service port name", service(ports=[{"port": 80, "name": "Not a label"}]))
    for field in ("providerClusters", "consumerClusters"):
        for names in (["m1"], ["m1", "m2"], ["m1", "m1"], [""], ["M 1"]):
            yield Case(f"{field} {names}", service(**{field: [{"name": name} for name in names]}))


def _binding_cases() -> Iterator[Case]:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "namespace": "default"}
    for names in (["a"], ["a", "b"], ["a", "a"], [""]):
        components = [{"name": name, "replicas": 1} for name in names]
        yield Case(
            f"components {names}",
            {
                "apiVersion": "work.karmada.io/v1alpha2",
                "kind": "ResourceBinding",
                "metadata": {"name": "a", "namespace": "default"},
                "spec": {"resource": resource, "components": components},
            },
        )


def all_cases() -> list[Case]:
    return [*recorded_cases(), *propagation_cases(), *override_cases(), *other_cases()]
