import asyncio

from simulate.fixtures import CRONJOBS, JOBS, exists, fleet, in_a_member, job, masked, status, workload
from trimtab.simulate.fleet import Pace
from trimtab.simulate.member import Member


def test_a_job_completes_and_its_status_is_as_recorded() -> None:
    async def story(member: Member) -> None:
        await member.client.create(JOBS, job(spec={"completions": 2, "parallelism": 2}))
        await asyncio.sleep(0.5)
        assert (await status(member.client, JOBS, "work"))["active"] == 2
        await asyncio.sleep(5)
        said = {
            "status": "True",
            "reason": "CompletionsReached",
            "message": "Reached expected number of succeeded pods",
        }
        assert masked(await status(member.client, JOBS, "work")) == {
            "conditions": [{"type": "SuccessCriteriaMet", **said}, {"type": "Complete", **said}],
            "succeeded": 2,
            "terminating": 0,
            "uncountedTerminatedPods": {},
            "ready": 0,
        }
        assert all(not pod.metadata.finalizers for pod in member.pods)

    in_a_member(story)


def test_no_more_pods_work_side_by_side_than_allowed() -> None:
    async def story(member: Member) -> None:
        await member.client.create(JOBS, job(spec={"completions": 6, "parallelism": 2}))
        most = 0
        for _ in range(200):
            await asyncio.sleep(0.1)
            most = max(most, sum(not pod.terminal for pod in member.pods))
        assert most == 2
        assert (await status(member.client, JOBS, "work"))["succeeded"] == 6

    in_a_member(story)


def test_a_job_that_keeps_failing_gives_up_at_its_limit() -> None:
    async def story(member: Member) -> None:
        failing = {"simulate.trimtab.dev/crash": "0.5"}
        await member.client.create(JOBS, job(spec={"backoffLimit": 2}, annotations=failing))
        await asyncio.sleep(120)
        seen = await status(member.client, JOBS, "work")
        assert [(one["type"], one["reason"]) for one in seen["conditions"]] == [
            ("FailureTarget", "BackoffLimitExceeded"),
            ("Failed", "BackoffLimitExceeded"),
        ]
        assert seen["failed"] == 3

    in_a_member(story)


def test_an_indexed_job_runs_every_index_once() -> None:
    async def story(member: Member) -> None:
        body = {"completions": 5, "parallelism": 3, "completionMode": "Indexed"}
        await member.client.create(JOBS, job(spec=body))
        await asyncio.sleep(20)
        seen = await status(member.client, JOBS, "work")
        assert (seen["succeeded"], seen["completedIndexes"]) == (5, "0-4")

    in_a_member(story)


def test_a_deadline_ends_a_job() -> None:
    async def story(member: Member) -> None:
        await member.client.create(JOBS, job(spec={"activeDeadlineSeconds": 10}))
        await asyncio.sleep(15)
        seen = await status(member.client, JOBS, "work")
        assert [one["reason"] for one in seen["conditions"]] == ["DeadlineExceeded", "DeadlineExceeded"]
        assert not [pod for pod in member.pods if not pod.terminal]

    in_a_member(story, fleet(pace=Pace(run=1000)))


def test_a_finished_job_is_forgotten_when_it_wants_to_be() -> None:
    async def story(member: Member) -> None:
        await member.client.create(JOBS, job(spec={"ttlSecondsAfterFinished": 30}))
        await asyncio.sleep(20)
        assert await exists(member.client, JOBS, "work")
        await asyncio.sleep(20)
        assert not await exists(member.client, JOBS, "work")
        assert not member.pods

    in_a_member(story)


def test_a_cronjob_makes_a_job_when_it_is_time() -> None:
    async def story(member: Member) -> None:
        body = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": job()["spec"]}}
        await member.client.create(CRONJOBS, workload("CronJob", "tick", body, "batch/v1"))
        await asyncio.sleep(250)
        assert not (await member.client.list(JOBS)).items
        await asyncio.sleep(1500)
        jobs = (await member.client.list(JOBS)).items
        assert len(jobs) == 3
        assert (await status(member.client, CRONJOBS, "tick"))["lastScheduleTime"] == "2030-01-01T00:25:00Z"

    in_a_member(story)
