"""Builders of API objects for tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from trimtab.api.kind import to_wire
from trimtab.api.kinds.cluster import Cluster, ClusterSpec, ClusterStatus, Taint
from trimtab.api.kinds.disruption import DisruptionPolicy, DisruptionPolicySpec, Freeze
from trimtab.api.kinds.policy import (
    ClusterPropagationPolicy,
    Placement,
    PropagationPolicy,
    PropagationSpec,
    ResourceSelector,
)
from trimtab.api.kinds.work import (
    AggregatedStatusItem,
    BindingSpec,
    BindingStatus,
    ObjectReference,
    ResourceBinding,
    TargetCluster,
    Work,
)
from trimtab.api.value import Condition, Meta, Raw
from trimtab.controllers import well_known

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def deployment(name: str = "web", replicas: int = 3, **metadata: Any) -> Raw:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": "demo",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "generation": 1,
            **metadata,
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]},
            },
        },
    }


def configmap(name: str = "conf", **metadata: Any) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "demo", "uid": f"uid-{name}", "resourceVersion": "7", **metadata},
        "data": {"k": "v"},
    }


def placement(**fields: Any) -> Placement:
    """A placement from its wire form."""
    return msgspec.convert(fields, Placement, strict=False)


def policy(name: str = "pp", *, kind: str = "Deployment", selects: str = "", **spec: Any) -> PropagationPolicy:
    api_version = {"Deployment": "apps/v1", "ConfigMap": "v1"}[kind]
    selector = ResourceSelector(api_version=api_version, kind=kind, namespace="demo", name=selects)
    return PropagationPolicy(
        metadata=Meta(
            name=name,
            namespace="demo",
            uid=f"uid-{name}",
            resource_version="3",
            generation=1,
            labels={well_known.PP_ID: f"id-{name}"},
            finalizers=(well_known.POLICY_FINALIZER,),
        ),
        spec=PropagationSpec(resource_selectors=(selector,)).but(**spec),
    )


def cluster_policy(name: str = "cpp", **spec: Any) -> ClusterPropagationPolicy:
    selector = ResourceSelector(api_version="apps/v1", kind="Deployment")
    return ClusterPropagationPolicy(
        metadata=Meta(
            name=name,
            uid=f"uid-{name}",
            resource_version="3",
            generation=1,
            labels={well_known.CPP_ID: f"id-{name}"},
            finalizers=(well_known.CLUSTER_POLICY_FINALIZER,),
        ),
        spec=PropagationSpec(resource_selectors=(selector,)).but(**spec),
    )


def claimed_template(template: Raw, by: PropagationPolicy) -> Raw:
    labels = {well_known.PP_ID: by.metadata.labels[well_known.PP_ID]}
    annotations = {well_known.PP_NAMESPACE: by.namespace, well_known.PP_NAME: by.name}
    return well_known.with_metadata(template, labels=labels, annotations=annotations)


def binding(name: str = "web", *, clusters: dict[str, int] | None = None, **fields: Any) -> ResourceBinding:
    """A scheduled binding of the Deployment `name`; further fields go into spec, `status_` ones into status."""
    status = {key.removeprefix("status_"): value for key, value in fields.items() if key.startswith("status_")}
    spec = {key: value for key, value in fields.items() if not key.startswith("status_")}
    targets = tuple(TargetCluster(name=c, replicas=n) for c, n in (clusters or {}).items())
    return ResourceBinding(
        metadata=Meta(
            name=f"{name}-deployment",
            namespace="demo",
            uid=f"uid-rb-{name}",
            resource_version="9",
            generation=2,
            labels={well_known.RB_ID: f"id-rb-{name}", well_known.PP_ID: "id-pp"},
            annotations={well_known.PP_NAMESPACE: "demo", well_known.PP_NAME: "pp", well_known.APPLIED_PLACEMENT: "{}"},
            finalizers=(well_known.BINDING_FINALIZER,),
        ),
        spec=BindingSpec(
            resource=ObjectReference(
                api_version="apps/v1", kind="Deployment", namespace="demo", name=name, uid=f"uid-{name}"
            ),
            replicas=sum((clusters or {}).values()),
            clusters=targets,
            placement=Placement(),
            scheduler_name="default-scheduler",
            conflict_resolution="Abort",
        ).but(**spec),
        status=BindingStatus(scheduler_observed_generation=2, last_scheduled_time=NOON - MINUTE).but(**status),
    )


def status_item(cluster: str, health: str = "Healthy", **fields: Any) -> AggregatedStatusItem:
    return AggregatedStatusItem(cluster_name=cluster, applied=True, health=health).but(**fields)


def cluster(name: str, *taints: str, ready: str = "True", **spec: Any) -> Cluster:
    """A cluster with taints given as `key:Effect`; `ready` is the status of its Ready condition, empty for none."""
    parsed = tuple(Taint(key=k, effect=e, time_added=NOON - MINUTE) for k, e in (t.split(":") for t in taints))
    conditions = (Condition(type="Ready", status=ready, last_transition_time=NOON - MINUTE),) if ready else ()
    return Cluster(
        metadata=Meta(
            name=name, uid=f"uid-{name}", resource_version="5", generation=1, finalizers=(well_known.CLUSTER_FINALIZER,)
        ),
        spec=ClusterSpec(sync_mode="Push", taints=parsed).but(**spec),
        status=ClusterStatus(conditions=conditions),
    )


def wire_form(thing: Any) -> Raw:
    return to_wire(thing)


def works_by_cluster(effects: list[Any]) -> dict[str, Work]:
    """The Works among the effects, by cluster."""
    return {well_known.cluster_of(effect.namespace): effect for effect in effects if isinstance(effect, Work)}


def frozen() -> DisruptionPolicy:
    """The settings of a control plane whose moves are frozen."""
    return DisruptionPolicy(
        metadata=Meta(name="default", resource_version="1"),
        spec=DisruptionPolicySpec(freeze=Freeze(reason="rehearsal")),
    )
