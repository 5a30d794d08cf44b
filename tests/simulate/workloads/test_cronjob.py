import asyncio

from simulate.fixtures import CRONJOBS, JOBS, job, run_in_member, status, workload
from trimtab.simulate.member import SimulatedMember


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
