import asyncio

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
