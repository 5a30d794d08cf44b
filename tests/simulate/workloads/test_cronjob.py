import asyncio
from typing import Any

import pytest

from simulate.fixtures import CRONJOBS, JOBS, job, run_in_member, status, workload
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

EVENTS = Resource("", "v1", "events", "Event")


def test_cronjob_creates_jobs_on_schedule_and_keeps_three() -> None:
    async def scenario(member: SimulatedMember) -> None:
        body = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": job()["spec"]}}
        await member.client.create(CRONJOBS, workload("CronJob", "tick", body, "batch/v1"))
        await asyncio.sleep(250)
        assert not (await member.client.list(JOBS)).items
        await asyncio.sleep(1500)
        jobs = (await member.client.list(JOBS)).items
        assert len(jobs) == 3
        assert (await status(member.client, CRONJOBS, "tick"))["lastScheduleTime"] == "2030-01-01T00:25:00Z"

    run_in_member(scenario)


def test_schedule_without_a_future_time_is_reported() -> None:
    async def scenario(member: SimulatedMember) -> None:
        body = {"schedule": "59 23 31 2 *", "jobTemplate": {"spec": job()["spec"]}}
        await member.client.create(CRONJOBS, workload("CronJob", "never", body, "batch/v1"))
        await asyncio.sleep(5)
        (event,) = (await member.client.list(EVENTS)).items
        assert (event["type"], event["reason"], event["involvedObject"]["name"]) == (
            "Warning",
            "InvalidSchedule",
            "never",
        )

    run_in_member(scenario)


async def create_hourly_while_suspended(member: SimulatedMember, **spec: Any) -> None:
    """A CronJob that misses 00:00 and is resumed ten minutes later."""
    body = {"schedule": "0 * * * *", "suspend": True, "jobTemplate": {"spec": job()["spec"]}, **spec}
    await member.client.create(CRONJOBS, workload("CronJob", "tick", body, "batch/v1"))
    await asyncio.sleep(70 * 60)
    await member.client.patch(CRONJOBS, "default", "tick", {"spec": {"suspend": False}})
    await asyncio.sleep(60)


@pytest.mark.parametrize(("deadline", "jobs"), [(None, 1), (900, 1), (300, 0)])
def test_missed_time_is_made_up_for_within_the_deadline(deadline: int | None, jobs: int) -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_hourly_while_suspended(member, startingDeadlineSeconds=deadline)
        assert len((await member.client.list(JOBS)).items) == jobs
        await asyncio.sleep(50 * 60)  # the next time is due in any case
        assert len((await member.client.list(JOBS)).items) == jobs + 1

    run_in_member(scenario)


def test_forbidden_second_job_is_reported() -> None:
    async def scenario(member: SimulatedMember) -> None:
        made = job(annotations={"simulate.trimtab.dev/run": "3600"})
        body = {"schedule": "*/5 * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": made["spec"]}}
        await member.client.create(CRONJOBS, workload("CronJob", "slow", body, "batch/v1"))
        await asyncio.sleep(660)
        assert len((await member.client.list(JOBS)).items) == 1
        reasons = {one["reason"]: one["message"] for one in (await member.client.list(EVENTS)).items}
        assert reasons["JobAlreadyActive"].startswith("Not starting job because prior execution is running")

    run_in_member(scenario)
