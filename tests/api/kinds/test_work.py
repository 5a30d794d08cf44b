"""Bindings and Works."""

from trimtab.api.kind import kind_of
from trimtab.api.kinds.work import ResourceBinding, Work

BINDINGS = kind_of(ResourceBinding)


def test_v1alpha1_binding_keeps_replicas_and_requirements() -> None:
    old = {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "ResourceBinding",
        "spec": {
            "resource": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": "web",
                "replicas": 3,
                "resourcePerReplicas": {"cpu": "1"},
            },
            "clusters": [{"name": "m1", "replicas": 3}],
        },
    }
    new = BINDINGS.convert(old, "v1alpha2")
    assert new["spec"]["replicas"] == 3
    assert new["spec"]["replicaRequirements"] == {"resourceRequest": {"cpu": "1"}}
    assert BINDINGS.convert(new, "v1alpha1") == old


def test_older_timestamp_spelling_is_normalized_on_decoding() -> None:
    eviction = {"clusterName": "m1", "createTimestamp": "2026-01-01T00:00:00Z"}
    decoded = BINDINGS.decode({"spec": {"resource": {}, "activeEvictionHistory": [eviction]}})
    assert isinstance(decoded, ResourceBinding)
    (entry,) = decoded.spec.active_eviction_history
    assert entry.creation_timestamp is not None
    assert entry.create_timestamp is None


def test_work_keeps_manifests_and_suspension_as_written() -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": ""}}
    raw = {"metadata": {"name": "w"}, "spec": {"workload": {"manifests": [manifest]}, "suspendDispatching": False}}
    encoded = kind_of(Work).encode(kind_of(Work).decode(raw))
    assert encoded["spec"] == raw["spec"]
