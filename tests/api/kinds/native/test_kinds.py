import trimtab.api.kinds
from trimtab.api.kind import find_kind, kinds
from trimtab.api.kinds.native import event, openapi
from trimtab.api.kinds.native.fields import known, message_name
from trimtab.registry import discover

discover(trimtab.api.kinds)
# Cluster is a built-in of Karmada's aggregated API, not of Kubernetes.
NATIVE = [kind for kind in kinds.values() if not kind.custom and kind.name != "Cluster"]


def test_every_native_kind_has_its_fields_and_its_schema() -> None:
    assert len(NATIVE) > 45
    for kind in NATIVE:
        for version in (kind.version, *kind.other_versions):
            api_version = f"{kind.group}/{version}" if kind.group else version
            assert known(message_name(api_version, kind.name)), kind
            schema = openapi.component(openapi.schema_name(api_version, kind.name))
            assert schema["x-kubernetes-group-version-kind"] == [
                {"group": kind.group, "version": version, "kind": kind.name}
            ]
            assert schema["description"]


def test_a_status_subresource_stands_where_the_kind_has_a_status() -> None:
    for kind in NATIVE:
        schema = openapi.component(openapi.schema_name(kind.api_version, kind.name))
        if "status" in schema["properties"] and "create" not in kind.verbs:
            assert kind.status or kind.name == "CSINode", kind


def test_kinds_are_found_in_every_version_they_have() -> None:
    autoscaler = find_kind("autoscaling/v1", "HorizontalPodAutoscaler")
    assert autoscaler is not None
    assert autoscaler is find_kind("autoscaling/v2", "HorizontalPodAutoscaler")


def test_an_empty_object_of_every_kind_can_be_typed() -> None:
    for kind in NATIVE:
        assert kind.decode({"metadata": {"name": "x"}}).name == "x"


def test_an_autoscaler_keeps_its_cpu_target_in_both_versions() -> None:
    autoscaler = find_kind("autoscaling/v2", "HorizontalPodAutoscaler")
    assert autoscaler is not None
    old = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "web"},
            "maxReplicas": 4,
            "targetCPUUtilizationPercentage": 80,
        },
        "status": {"currentReplicas": 0, "desiredReplicas": 0},
    }
    new = autoscaler.convert(old, "v2")
    assert new["spec"]["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 80}
    assert autoscaler.convert(new, "v1") == old


def test_an_event_reads_the_same_in_both_groups() -> None:
    core = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod"},
        "message": "hello",
        "count": 4,
        "source": {},
        "reportingComponent": "",
        "reportingInstance": "",
    }
    told = event.to_events_v1(core)
    assert (told["regarding"], told["note"], told["deprecatedCount"]) == ({"kind": "Pod"}, "hello", 4)
    assert event.to_core(told) == core
