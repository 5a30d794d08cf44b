"""Events of the workload controllers about the objects that they create and delete, and about Jobs that end."""

import asyncio
from typing import Any

import pytest

from simulate.fixtures import (
    CRONJOBS,
    DAEMONSETS,
    DEPLOYMENTS,
    JOBS,
    STATEFULSETS,
    deployment,
    fleet,
    job,
    run_in_member,
    run_in_whole_cluster,
    statefulset,
    template,
    workload,
)
from trimtab.client.client import EVENTS, Resource
from trimtab.simulate import fleet as fleet_module
from trimtab.simulate.member import SimulatedMember

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")


async def events_of(member: SimulatedMember, kind: str) -> set[tuple[str, str, str, str]]:
    """(type, reason, message, component) of the events about objects of a kind."""
    found = (await member.client.list(EVENTS, "default")).items
    return {
        (one["type"], one["reason"], one["message"], one["source"]["component"])
        for one in found
        if one["involvedObject"]["kind"] == kind
    }


def test_created_and_deleted_pods_of_a_replicaset() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(10)
        names = {pod.name for pod in member.pods}
        created = {("Normal", "SuccessfulCreate", f"Created pod: {name}", "replicaset-controller") for name in names}
        assert await events_of(member, "ReplicaSet") == created
        await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 1}})
        await asyncio.sleep(10)
        (gone,) = names - {pod.name for pod in member.pods}
        deleted = ("Normal", "SuccessfulDelete", f"Deleted pod: {gone}", "replicaset-controller")
        assert await events_of(member, "ReplicaSet") == {*created, deleted}

    run_in_whole_cluster(scenario)


def test_pods_and_claims_of_a_statefulset() -> None:
    async def scenario(member: SimulatedMember) -> None:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        made = statefulset(replicas=1, spec={"volumeClaimTemplates": [{"metadata": {"name": "disk"}, "spec": claim}]})
        await member.client.create(STATEFULSETS, made)
        await asyncio.sleep(10)
        await member.client.patch(STATEFULSETS, "default", "db", {"spec": {"replicas": 0}})
        await asyncio.sleep(10)
        assert {(reason, message) for _, reason, message, _ in await events_of(member, "StatefulSet")} == {
            ("SuccessfulCreate", "create Claim disk-db-0 Pod db-0 in StatefulSet db success"),
            ("SuccessfulCreate", "create Pod db-0 in StatefulSet db successful"),
            ("SuccessfulDelete", "delete Pod db-0 in StatefulSet db successful"),
        }

    run_in_whole_cluster(scenario)


def test_pods_that_are_refused_are_a_warning() -> None:
    async def scenario(member: SimulatedMember) -> None:
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": "default"}}
        await member.client.create(QUOTAS, {**quota, "spec": {"hard": {"pods": "0"}}})
        await asyncio.sleep(2)
        body = {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent")}
        await member.client.create(DAEMONSETS, workload("DaemonSet", "agent", body))
        await member.client.create(STATEFULSETS, statefulset())
        await asyncio.sleep(10)
        ((type_, reason, message, _), *_) = await events_of(member, "DaemonSet")
        assert (type_, reason) == ("Warning", "FailedCreate")
        assert message.startswith("Error creating: pods ")
        assert "exceeded quota: none" in message
        ((type_, reason, message, _),) = await events_of(member, "StatefulSet")
        assert (type_, reason) == ("Warning", "FailedCreate")
        assert message.startswith('create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: ')

    run_in_whole_cluster(scenario, fleet(nodes=1))


@pytest.mark.parametrize(
    ("spec", "script", "ends"),
    [
        ({}, "exit 0", ("Normal", "Completed", "Job completed")),
        (
            {"backoffLimit": 0},
            "exit 1",
            ("Warning", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        ),
        ({"suspend": True}, "exit 0", ("Normal", "Suspended", "Job suspended")),
    ],
)
def test_end_and_suspension_of_a_job(spec: dict[str, Any], script: str, ends: tuple[str, str, str]) -> None:
    async def scenario(member: SimulatedMember) -> None:
        made = job(spec=spec)
        container = made["spec"]["template"]["spec"]["containers"][0]
        container |= {"image": "busybox", "command": ["sh", "-c", script]}
        await member.client.create(JOBS, made)
        await asyncio.sleep(30)
        found = await events_of(member, "Job")
        assert {(*ends, "job-controller")} == {one for one in found if one[1] != "SuccessfulCreate"}

    run_in_whole_cluster(scenario)


def test_resumed_job() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(JOBS, job(spec={"suspend": True}))
        await asyncio.sleep(5)
        await member.client.patch(JOBS, "default", "work", {"spec": {"suspend": False}})
        await asyncio.sleep(5)
        assert ("Normal", "Resumed", "Job resumed", "job-controller") in await events_of(member, "Job")

    run_in_whole_cluster(scenario)


def test_jobs_of_a_cronjob() -> None:
    async def scenario(member: SimulatedMember) -> None:
        body = {"schedule": "*/5 * * * *", "successfulJobsHistoryLimit": 1, "jobTemplate": {"spec": job()["spec"]}}
        await member.client.create(CRONJOBS, workload("CronJob", "tick", body, "batch/v1"))
        await asyncio.sleep(700)
        events = await events_of(member, "CronJob")
        messages = sorted(message for _, _, message, _ in events)
        first, second = (message.removeprefix("Created job ") for message in messages[:2])
        assert messages == [
            f"Created job {first}",
            f"Created job {second}",
            f"Deleted job {first}",
            f"Saw completed job: {first}, condition: Complete",
            f"Saw completed job: {second}, condition: Complete",
        ]
        assert {source for *_, source in events} == {"cronjob-controller"}

    run_in_whole_cluster(scenario)


def test_members_of_stories_and_large_fleets_record_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment())
        await asyncio.sleep(10)
        assert await events_of(member, "ReplicaSet") == set()

    run_in_member(scenario)
    monkeypatch.setattr(fleet_module, "MAX_NODES_WITH_KUBELET_EVENTS", 2)
    run_in_whole_cluster(scenario, fleet(nodes=3))
