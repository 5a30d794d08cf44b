import asyncio

from simulate.fixtures import JOBS, PODS, exists, fleet, job, run_in_member, status, without_times
from trimtab.api.value import Raw
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


def reasons(seen: Raw) -> list[tuple[str, str]]:
    return [(one["type"], one["reason"]) for one in seen["conditions"]]


def test_deleting_a_job_deletes_its_running_pods() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(JOBS, job(spec={"parallelism": 2, "completions": 2}))
        await asyncio.sleep(5)
        assert len(member.pods) == 2
        await member.client.delete(JOBS, "default", "work")
        await asyncio.sleep(10)
        assert not member.pods

    run_in_member(scenario, fleet(pace=Pace(run=1000)))


def test_a_job_of_another_controller_is_left_alone() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(JOBS, job(spec={"managedBy": "example.com/queue"}))
        await asyncio.sleep(5)
        assert not member.pods
        assert await status(member.client, JOBS, "work") == {}

    run_in_member(scenario)


def test_a_success_rule_ends_the_job_and_its_other_pods() -> None:
    async def scenario(member: SimulatedMember) -> None:
        rules = {"rules": [{"succeededCount": 1}]}
        spec = {"completions": 3, "parallelism": 1, "completionMode": "Indexed", "successPolicy": rules}
        await member.client.create(JOBS, job(spec=spec))
        await asyncio.sleep(20)
        seen = await status(member.client, JOBS, "work")
        assert reasons(seen) == [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]
        assert (seen["succeeded"], seen["completedIndexes"], seen.get("failed", 0)) == (1, "0", 0)

    run_in_member(scenario)


def test_every_index_has_its_own_back_off_limit() -> None:
    async def scenario(member: SimulatedMember) -> None:
        spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
        await member.client.create(JOBS, job(spec=spec, annotations={"simulate.trimtab.dev/crash": "0.5"}))
        await asyncio.sleep(60)
        seen = await status(member.client, JOBS, "work")
        assert reasons(seen)[-1] == ("Failed", "FailedIndexes")
        assert (seen["failedIndexes"], seen["failed"], seen.get("completedIndexes", "")) == ("0-1", 4, "")

    run_in_member(scenario)


def test_a_failure_that_the_policy_ignores_does_not_count() -> None:
    async def scenario(member: SimulatedMember) -> None:
        rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}
        spec = {"backoffLimit": 0, "podFailurePolicy": {"rules": [rule]}}
        failing = {"simulate.trimtab.dev/crash": "0.5", "simulate.trimtab.dev/exit-code": "42"}
        await member.client.create(JOBS, job(spec=spec, annotations=failing))
        await asyncio.sleep(60)
        seen = await status(member.client, JOBS, "work")
        assert "conditions" not in seen
        assert len(member.pods) > 1

    run_in_member(scenario)


def test_a_failure_can_end_the_job_at_once() -> None:
    async def scenario(member: SimulatedMember) -> None:
        rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
        failing = {"simulate.trimtab.dev/crash": "0.5"}
        spec = {"podFailurePolicy": {"rules": [rule]}}
        await member.client.create(JOBS, job(spec=spec, annotations=failing))
        await asyncio.sleep(10)
        assert reasons(await status(member.client, JOBS, "work"))[-1] == ("Failed", "PodFailurePolicy")
        assert len(member.pods) == 1

    run_in_member(scenario)


def test_a_pod_without_owner_is_adopted_and_released_with_its_finalizer() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(JOBS, job(spec={"completions": 2}))
        await asyncio.sleep(5)
        (first,) = member.pods
        await member.client.patch(PODS, "default", first.name, {"metadata": {"ownerReferences": None}})
        await asyncio.sleep(5)
        (adopted,) = (pod for pod in member.pods if pod.name == first.name)
        assert adopted.controller is not None
        labels = dict.fromkeys(adopted.metadata.labels)
        await member.client.patch(PODS, "default", first.name, {"metadata": {"labels": labels}})
        await asyncio.sleep(5)
        (released,) = (pod for pod in member.pods if pod.name == first.name)
        assert (released.controller, released.metadata.finalizers) == (None, ())

    run_in_member(scenario, fleet(pace=Pace(run=1000)))


def test_pods_are_replaced_only_after_they_have_ended_if_the_job_asks_for_it() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(JOBS, job(spec={"podReplacementPolicy": "Failed"}))
        await asyncio.sleep(5)
        (first,) = member.pods
        await member.client.delete(PODS, "default", first.name)
        await asyncio.sleep(2)
        seen = await status(member.client, JOBS, "work")
        assert (len(member.pods), seen.get("active", 0), seen["terminating"], seen.get("failed", 0)) == (1, 0, 1, 0)
        await asyncio.sleep(30)
        seen = await status(member.client, JOBS, "work")
        assert (seen["active"], seen["failed"]) == (1, 1)

    run_in_member(scenario, fleet(pace=Pace(run=1000, stop=10)))
