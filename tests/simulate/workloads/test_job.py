import asyncio

from simulate.fixtures import JOBS, exists, fleet, job, run_in_member, status, without_times
from trimtab.simulate.fleet import Pace
from trimtab.simulate.member import SimulatedMember


def test_completed_job_has_the_recorded_status() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(JOBS, job(spec={"completions": 2, "parallelism": 2}))
        await asyncio.sleep(0.5)
        assert (await status(member.client, JOBS, "work"))["active"] == 2
        await asyncio.sleep(5)
        completed = {
            "status": "True",
            "reason": "CompletionsReached",
            "message": "Reached expected number of succeeded pods",
        }
        assert without_times(await status(member.client, JOBS, "work")) == {
            "conditions": [{"type": "SuccessCriteriaMet", **completed}, {"type": "Complete", **completed}],
            "succeeded": 2,
            "terminating": 0,
            "uncountedTerminatedPods": {},
            "ready": 0,
        }
        assert all(not pod.metadata.finalizers for pod in member.pods)

    run_in_member(scenario)


def test_active_pods_do_not_exceed_parallelism() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(JOBS, job(spec={"completions": 6, "parallelism": 2}))
        most = 0
        for _ in range(200):
            await asyncio.sleep(0.1)
            most = max(most, sum(not pod.is_terminal for pod in member.pods))
        assert most == 2
        assert (await status(member.client, JOBS, "work"))["succeeded"] == 6

    run_in_member(scenario)


def test_job_fails_at_its_backoff_limit() -> None:
    async def scenario(member: SimulatedMember) -> None:
        failing = {"simulate.trimtab.dev/crash": "0.5"}
        await member.client.create(JOBS, job(spec={"backoffLimit": 2}, annotations=failing))
        await asyncio.sleep(120)
        seen = await status(member.client, JOBS, "work")
        assert [(one["type"], one["reason"]) for one in seen["conditions"]] == [
            ("FailureTarget", "BackoffLimitExceeded"),
            ("Failed", "BackoffLimitExceeded"),
        ]
        assert seen["failed"] == 3

    run_in_member(scenario)


def test_an_indexed_job_runs_every_index_once() -> None:
    async def scenario(member: SimulatedMember) -> None:
        body = {"completions": 5, "parallelism": 3, "completionMode": "Indexed"}
        await member.client.create(JOBS, job(spec=body))
        await asyncio.sleep(20)
        seen = await status(member.client, JOBS, "work")
        assert (seen["succeeded"], seen["completedIndexes"]) == (5, "0-4")

    run_in_member(scenario)


def test_job_fails_at_its_active_deadline() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(JOBS, job(spec={"activeDeadlineSeconds": 10}))
        await asyncio.sleep(15)
        seen = await status(member.client, JOBS, "work")
        assert [one["reason"] for one in seen["conditions"]] == ["DeadlineExceeded", "DeadlineExceeded"]
        assert not [pod for pod in member.pods if not pod.is_terminal]

    run_in_member(scenario, fleet(pace=Pace(run=1000)))


def test_finished_job_is_deleted_after_its_ttl() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(JOBS, job(spec={"ttlSecondsAfterFinished": 30}))
        await asyncio.sleep(20)
        assert await exists(member.client, JOBS, "work")
        await asyncio.sleep(20)
        assert not await exists(member.client, JOBS, "work")
        assert not member.pods

    run_in_member(scenario)
