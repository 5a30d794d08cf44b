from typing import Any

import pytest

from interpret.native.native_helpers import TRIMTAB, deployment
from trimtab.interpret.podspec import replica_requirements, resource_request


def test_resource_amounts_are_formatted_by_resource() -> None:
    requests = {"memory": "1G", "cpu": "1500m", "nvidia.com/gpu": 2, "hugepages-2Mi": "4Mi", "odd": 1, "pods": 0}
    (_, needs) = TRIMTAB.replicas(deployment(containers=[{"resources": {"requests": requests}}]))
    assert needs == {
        "resourceRequest": {"cpu": "1500m", "hugepages-2Mi": "4Mi", "memory": "1000000000", "nvidia.com/gpu": "2"}
    }


@pytest.mark.parametrize(
    "volume",
    [
        {"azureFile": {"secretName": "s"}}, {"cephfs": {"secretRef": {"name": "s"}}}, {"cinder": {"secretRef": {"name": "s"}}},
        {"flexVolume": {"secretRef": {"name": "s"}}}, {"rbd": {"secretRef": {"name": "s"}}}, {"secret": {"secretName": "s"}},
        {"scaleIO": {"secretRef": {"name": "s"}}}, {"iscsi": {"secretRef": {"name": "s"}}},
        {"storageos": {"secretRef": {"name": "s"}}}, {"csi": {"nodePublishSecretRef": {"name": "s"}}},
    ],
)  # fmt: skip
def test_secret_of_every_volume_type_is_a_dependency(volume: dict[str, Any]) -> None:
    assert [ref["name"] for ref in TRIMTAB.dependencies(deployment(volumes=[volume]))] == ["s"]


def test_default_service_account_is_not_a_dependency() -> None:
    assert TRIMTAB.dependencies(deployment(serviceAccountName="default")) == []


def container(**requests: str) -> dict[str, Any]:
    return {"resources": {"requests": requests}}


def test_request_is_the_larger_of_containers_and_init_containers_plus_overhead() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1Gi"), container(cpu="500m")],
        "initContainers": [container(cpu="1", memory="2Gi")],
        "overhead": {"cpu": "100m"},
    }
    assert resource_request(spec) == {"cpu": "1600m", "memory": "2Gi"}


def test_limit_counts_where_a_request_is_missing() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    assert resource_request({"containers": [{"resources": resources}]}) == {"cpu": "1", "memory": "1Gi"}


def test_node_constraints_are_part_of_the_requirements() -> None:
    spec = {"nodeSelector": {"disk": "ssd"}, "priorityClassName": "high"}
    claim = {"nodeSelector": {"disk": "ssd"}}
    assert replica_requirements({"spec": spec}) == {"nodeClaim": claim}
    assert replica_requirements({"spec": spec}, with_priority=True) == {"nodeClaim": claim, "priorityClassName": "high"}
    assert replica_requirements({"spec": {"priorityClassName": "high"}}, with_priority=True) is None
