"""On a real kube-apiserver our controllers own only the fields that they set."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kube.fleet import CLUSTERS, NAMESPACES, WORKS, RealFleet, all_ready, wait_until
from kube.workloads import BINDINGS, DEPLOYMENTS, POLICIES, delete_namespace, deployment, policy

from trimtab.client.client import Client, Resource

NAMESPACE = "owned"
FOREIGN = "example.com/written-by"


@pytest.fixture(scope="module")
def workload_fleet(fleet: RealFleet) -> Iterator[RealFleet]:
    """A rolled-out workload; then others write to all objects, and the workload is scaled."""
    with fleet.controllers("ownership", "--status-seconds=2"):
        fleet.loop.run(roll_out(fleet))
        yield fleet
        fleet.loop.run(delete_namespace(fleet, NAMESPACE))


async def roll_out(fleet: RealFleet) -> None:
    await wait_until(lambda: all_ready(fleet))
    host = fleet.client
    await host.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await host.create(POLICIES, policy(NAMESPACE), manager="author")
    await host.create(DEPLOYMENTS, deployment(NAMESPACE, 0), manager="author")
    await wait_until(lambda: is_ready(fleet, 1))
    for number, (client, resource, namespace, name) in enumerate(await written_objects(fleet)):
        annotation = {"metadata": {"annotations": {f"{FOREIGN}-{number}": "somebody"}}}
        await client.patch(resource, namespace, name, annotation, manager="somebody")
    await host.patch(DEPLOYMENTS, NAMESPACE, "web-0", {"spec": {"replicas": 2}}, manager="author")
    await wait_until(lambda: is_ready(fleet, 2))


async def written_objects(fleet: RealFleet) -> list[tuple[Client, Resource, str, str]]:
    """Every kind of object that we write: the template, the binding, a Work, a Cluster, and the copy in a member."""
    (work,) = [
        work["metadata"]["name"]
        for work in (await fleet.client.list(WORKS, "karmada-es-member1")).items
        if work["spec"]["workload"]["manifests"][0]["metadata"].get("namespace") == NAMESPACE
    ]
    return [
        (fleet.client, DEPLOYMENTS, NAMESPACE, "web-0"),
        (fleet.client, BINDINGS, NAMESPACE, "web-0-deployment"),
        (fleet.client, WORKS, "karmada-es-member1", work),
        (fleet.client, CLUSTERS, "", "member1"),
        (fleet.members["member1"], DEPLOYMENTS, NAMESPACE, "web-0"),
    ]


async def is_ready(fleet: RealFleet, replicas: int) -> bool:
    status = (await fleet.client.get(DEPLOYMENTS, NAMESPACE, "web-0")).get("status") or {}
    return bool(status.get("readyReplicas") == replicas * len(fleet.real_members))


def fields_of(obj: dict[str, Any]) -> dict[str, set[str]]:
    """The fields that each of our controllers owns in an object: paths of depth two, such as `spec.replicas`."""
    owned: dict[str, set[str]] = {}
    for entry in obj["metadata"]["managedFields"]:
        if entry["manager"].startswith("trimtab") and entry["manager"] != "trimtab-join":
            owned.setdefault(entry["manager"], set()).update(paths(entry["fieldsV1"]))
    return owned


def paths(fields: dict[str, Any]) -> Iterator[str]:
    for first, inner in fields.items():
        yield from (f"{first[2:]}.{second[2:]}" for second in inner if second != ".")


def fetch_object(fleet: RealFleet, resource: Resource, *, member: bool = False) -> dict[str, Any]:
    for client, there, namespace, name in fleet.loop.run(written_objects(fleet)):
        if there == resource and member is (client is not fleet.client):
            return fleet.loop.run(client.get(resource, namespace, name))
    raise LookupError(resource.kind)


def test_template_labels_annotations_and_status_are_ours(workload_fleet: RealFleet) -> None:
    owned = fields_of(fetch_object(workload_fleet, DEPLOYMENTS))
    assert owned.pop("trimtab-detect") == {"metadata.annotations", "metadata.labels"}
    assert {path.partition(".")[0] for path in owned.pop("trimtab-aggregate")} == {"status"}
    assert not owned


def test_only_discovered_fields_of_a_cluster_are_ours(workload_fleet: RealFleet) -> None:
    owned_fields = {path for fields in fields_of(fetch_object(workload_fleet, CLUSTERS)).values() for path in fields}
    assert {path for path in owned_fields if not path.startswith("status.")} == {
        "metadata.finalizers",
        "spec.resourceModels",
    }


def test_each_controller_owns_its_own_part_of_a_binding(workload_fleet: RealFleet) -> None:
    """The scheduler creates the binding; what `detect` changes later is its own, and never the placement."""
    owned = fields_of(fetch_object(workload_fleet, BINDINGS))
    created = {"clusters", "placement", "resource", "schedulerName", "conflictResolution"}
    assert {path for path in owned["trimtab-schedule"] if path.startswith("spec.")} == {f"spec.{n}" for n in created}
    assert "status.aggregatedStatus" not in owned["trimtab-schedule"]
    assert "spec.clusters" not in owned.get("trimtab-detect", set())
    assert owned["trimtab-aggregate"] <= {"status.aggregatedStatus", "status.conditions"}


def test_member_copy_is_ours_except_its_status(workload_fleet: RealFleet) -> None:
    owned = fields_of(fetch_object(workload_fleet, DEPLOYMENTS, member=True))
    assert list(owned) == ["trimtab-execute"]
    assert {path.partition(".")[0] for path in owned["trimtab-execute"]} == {"metadata", "spec"}


@pytest.mark.parametrize("number", range(5), ids=["template", "binding", "work", "cluster", "copy"])
def test_fields_of_other_managers_survive_our_writes(workload_fleet: RealFleet, number: int) -> None:
    client, resource, namespace, name = workload_fleet.loop.run(written_objects(workload_fleet))[number]
    obj = workload_fleet.loop.run(client.get(resource, namespace, name))
    annotation = f"{FOREIGN}-{number}"
    assert obj["metadata"]["annotations"][annotation] == "somebody"
    theirs = [e["manager"] for e in obj["metadata"]["managedFields"] if f"f:{annotation}" in json.dumps(e["fieldsV1"])]
    assert theirs == ["somebody"]
