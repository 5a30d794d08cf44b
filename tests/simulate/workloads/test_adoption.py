import asyncio
from datetime import UTC, datetime

from simulate.fixtures import PODS, REPLICASETS, create_pod, run_in_member, template, workload
from trimtab.api.kinds.native.apps import ReplicaSet, ReplicaSetSpec
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.workloads.adoption import claim_children


def replicaset(replicas: int, name: str = "web") -> dict[str, object]:
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web")}
    return workload("ReplicaSet", name, body)


def owner_names(member: SimulatedMember) -> dict[str, list[str]]:
    return {pod.name: [owner.name for owner in pod.metadata.owner_references] for pod in member.pods}


def test_a_new_workload_adopts_pods_that_its_selector_matches() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_pod(member, "web")
        await create_pod(member, "other")
        await member.client.create(REPLICASETS, replicaset(1))
        await asyncio.sleep(5)
        assert owner_names(member) == {"web": ["web"], "other": []}

    run_in_member(scenario)


def test_a_pod_created_later_is_adopted_and_replaces_a_surplus_one() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(REPLICASETS, replicaset(2))
        await asyncio.sleep(5)
        await create_pod(member, "web")
        await asyncio.sleep(5)
        assert len(member.pods) == 2
        assert all(owners == ["web"] for owners in owner_names(member).values())

    run_in_member(scenario)


def test_a_pod_whose_labels_no_longer_match_is_released_and_replaced() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(REPLICASETS, replicaset(1))
        await asyncio.sleep(5)
        (first,) = member.pods
        await member.client.patch(PODS, "default", first.name, {"metadata": {"labels": {"app": "debug"}}})
        await asyncio.sleep(5)
        owners = owner_names(member)
        assert owners.pop(first.name) == []
        assert list(owners.values()) == [["web"]]

    run_in_member(scenario)


def test_a_workload_that_is_being_deleted_adopts_nothing() -> None:
    meta = Meta(name="web", namespace="default", uid="1")
    pod = Pod(metadata=Meta(name="one", namespace="default", labels={"app": "web"}))
    spec = ReplicaSetSpec(selector=LabelSelector(match_labels={"app": "web"}))
    assert claim_children(ReplicaSet(metadata=meta, spec=spec), [], [pod]).effects
    deleted = ReplicaSet(metadata=meta.but(deletion_timestamp=datetime(2030, 1, 1, tzinfo=UTC)), spec=spec)
    assert claim_children(deleted, [], [pod]).effects == []
