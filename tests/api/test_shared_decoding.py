"""Objects that were changed are decoded only where they have changed."""

import json
from typing import Any

import pytest

from trimtab.api.kind import kind_of
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.shared_decoding import is_derived
from trimtab.api.value import Raw

BINDING: Raw = {
    "apiVersion": "work.karmada.io/v1alpha2",
    "kind": "ResourceBinding",
    "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "1", "labels": {"a": "b"}},
    "spec": {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "replicas": 2,
        "placement": {"clusterAffinity": {"clusterNames": ["one", "two"]}},
    },
    "status": {"schedulerObservedGeneration": 1, "aggregatedStatus": [{"clusterName": "one", "applied": True}]},
}
KIND = kind_of(ResourceBinding)


def changed(**members: Any) -> Raw:
    return {**BINDING, "metadata": {**BINDING["metadata"], "resourceVersion": "2"}, **members}


@pytest.mark.parametrize(
    "new",
    [
        changed(),
        changed(status={**BINDING["status"], "schedulerObservedGeneration": 2}),
        changed(status={"schedulerObservedGeneration": 2}),
        changed(spec={**BINDING["spec"], "clusters": [{"name": "one", "replicas": 2}]}),
        changed(spec={**BINDING["spec"], "replicas": 3}, status={}),
        changed(spec={"resource": BINDING["spec"]["resource"], "unknown": {"x": 1}}),
        {key: value for key, value in changed().items() if key != "status"},
        changed(spec={**BINDING["spec"], "placement": None}),
        changed(spec={key: value for key, value in BINDING["spec"].items() if key != "replicas"}),
        changed(
            spec={
                **BINDING["spec"],
                "gracefulEvictionTasks": [{"fromCluster": "one", "creationTimestamp": "2030-01-01T00:00:00Z"}],
            }
        ),
    ],
)
def test_changed_object_is_decoded_as_a_whole_one(new: Raw) -> None:
    decoded = KIND.decode(BINDING)
    assert is_derived(new, BINDING)
    assert KIND.decode_changed(new, BINDING, decoded) == KIND.decode(new)


def test_unchanged_parts_are_shared() -> None:
    decoded: Any = KIND.decode(BINDING)
    found: Any = KIND.decode_changed(changed(spec={**BINDING["spec"], "replicas": 3}), BINDING, decoded)
    assert found.status is decoded.status
    assert found.spec.placement is decoded.spec.placement
    assert (found.spec.replicas, found.metadata.resource_version) == (3, "2")


def test_parts_are_shared_when_fields_are_added_or_removed() -> None:
    without_status = {key: value for key, value in BINDING.items() if key != "status"}
    decoded: Any = KIND.decode(without_status)
    scheduled = {**BINDING["spec"], "clusters": [{"name": "one", "replicas": 2}]}
    found: Any = KIND.decode_changed(changed(spec=scheduled), without_status, decoded)
    assert found == KIND.decode(changed(spec=scheduled))
    assert found.spec.placement is decoded.spec.placement
    back: Any = KIND.decode_changed(without_status, changed(spec=scheduled), found)
    assert back == decoded
    assert back.spec.placement is decoded.spec.placement


def test_object_of_another_decoding_shares_nothing() -> None:
    uid = json.loads(json.dumps("u1"))
    assert not is_derived({"metadata": {"uid": uid}}, BINDING)
    assert not is_derived({"metadata": {}}, {"metadata": {}})
