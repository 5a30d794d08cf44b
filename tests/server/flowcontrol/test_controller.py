"""Admission of requests: turns of the event loop, waiting, rejection."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from trimtab.clock import run_virtually
from trimtab.server.auth.authorize import Action
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, User
from trimtab.server.flowcontrol.controller import ANSWERS_PER_TURN, FlowController, FlowLimits, Rejected, watch_pause

GET = Action("get", "", "configmaps", "", "default", "x")
ADMIN = User("admin", (MASTERS, AUTHENTICATED))
ANN, BOB = User("ann", (AUTHENTICATED,)), User("bob", (AUTHENTICATED,))
Handler = Callable[[], Coroutine[Any, Any, None]]


async def handle_at_once() -> None:
    """A request that never waits, such as a read."""


async def send_forever(
    flows: FlowController, user: User, served: Counter[str], handle: Handler = handle_at_once
) -> None:
    """A connection that sends its next request as soon as the last one is answered, whatever the answer."""
    while True:
        try:
            admission = await flows.admit(flows.classify(user, GET))
        except Rejected:
            served[f"{user.name} rejected"] += 1
        else:
            await handle()
            served[user.name] += 1
            admission.end()
        await asyncio.sleep(0)


async def served_during(turns: int, *clients: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.ensure_future(client) for client in clients]
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_user_with_500_connections_gets_one_request_per_turn_of_the_loop() -> None:
    async def scenario() -> Counter[str]:
        flows, served = FlowController(), Counter[str]()
        await served_during(400, *(send_forever(flows, ANN, served) for _ in range(500)))
        return served

    served = run_virtually(scenario())
    assert served["ann"] <= 401
    assert served["ann"] >= 390
    assert served["ann rejected"] <= 4 * 401


def test_user_with_one_connection_gets_as_much_as_user_with_500() -> None:
    async def scenario() -> Counter[str]:
        flows, served = FlowController(), Counter[str]()
        many = [send_forever(flows, ANN, served) for _ in range(500)]
        await served_during(3000, *many, send_forever(flows, BOB, served))
        return served

    served = run_virtually(scenario())
    assert served["bob rejected"] == 0
    assert served["bob"] >= served["ann"] // 3  # its next request arrives a turn after the last answer


def test_exempt_request_never_waits_behind_500_connections() -> None:
    async def scenario() -> None:
        flows, served = FlowController(), Counter[str]()
        clients = [asyncio.ensure_future(send_forever(flows, ANN, served)) for _ in range(500)]
        for _ in range(100):
            await asyncio.sleep(0)
            before = served.copy()
            admission = flows.admit_exempt(flows.classify(ADMIN, GET))
            assert served == before  # admitted within the same turn
            assert admission.is_exempt
            admission.end()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    run_virtually(scenario())


def test_no_request_starts_between_an_exempt_write_and_its_commit() -> None:
    async def scenario() -> None:
        is_commit_due = False
        flows, served = FlowController(is_commit_due=lambda: is_commit_due), Counter[str]()
        clients = [asyncio.ensure_future(send_forever(flows, ANN, served)) for _ in range(50)]
        for _ in range(20):
            await asyncio.sleep(0)
        flows.note_exempt()
        is_commit_due = True
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # a request that had its turn before ends
        before = served["ann"]
        for _ in range(10):
            await asyncio.sleep(0)
        assert served["ann"] == before
        is_commit_due = False
        for _ in range(10):
            await asyncio.sleep(0)
        assert served["ann"] > before
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    run_virtually(scenario())


def test_requests_get_a_share_of_the_time_while_exempt_callers_are_active() -> None:
    async def scenario(*, exempt: bool) -> int:
        flows, served = FlowController(), Counter[str]()
        loop = asyncio.get_running_loop()

        async def busy() -> None:
            loop.elapsed += 0.01  # type: ignore[attr-defined] # ten milliseconds of CPU

        clients = [asyncio.ensure_future(send_forever(flows, ANN, served, busy)) for _ in range(50)]
        ends = loop.time() + 10
        while loop.time() < ends:
            if exempt:
                flows.note_exempt()
            await asyncio.sleep(0.02)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        return served["ann"]

    alone, beside = run_virtually(scenario(exempt=False)), run_virtually(scenario(exempt=True))
    assert alone >= 900  # all of the ten seconds
    assert 80 <= beside <= 150  # about a tenth


@pytest.mark.parametrize(("lag", "pause"), [(0.0, 0.0), (0.1, 0.0), (0.3, 0.05), (60.0, 0.1)])
def test_writes_of_exempt_callers_pause_while_the_controllers_lag(lag: float, pause: float) -> None:
    async def scenario() -> float:
        flows = FlowController()
        flows.follow_controllers(lambda: lag)
        begun = asyncio.get_running_loop().time()
        await flows.wait_for_controllers()
        return asyncio.get_running_loop().time() - begun

    assert run_virtually(scenario()) == pytest.approx(pause)


def test_first_request_starts_without_waiting() -> None:
    async def scenario() -> None:
        flows = FlowController()
        admitting = flows.admit(flows.classify(ANN, GET))
        with pytest.raises(StopIteration) as finished:
            admitting.send(None)
        assert not finished.value.value.is_exempt

    run_virtually(scenario())


def test_request_that_waits_too_long_is_rejected() -> None:
    async def scenario() -> None:
        flows = FlowController(FlowLimits(1, 0, 15.0))
        running = [await flows.admit(flows.classify(ANN, GET)) for _ in range(1)]
        begun = asyncio.get_running_loop().time()
        with pytest.raises(Rejected) as rejected:
            while True:  # borrowed seats are taken first
                running.append(await flows.admit(flows.classify(ANN, GET)))
        assert rejected.value.why == "time-out"
        assert 15 <= asyncio.get_running_loop().time() - begun <= 17
        assert flows.queues.waiting == 0

    run_virtually(scenario())


def test_rejection_has_the_status_of_kubernetes() -> None:
    error = Rejected("queue-full", ())
    status = error.status()
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["message"] == "Too many requests, please try again later."
    assert status["details"] == {"retryAfterSeconds": 1}


def test_cancelled_request_leaves_its_queue() -> None:
    async def scenario() -> None:
        flows = FlowController(FlowLimits(1, 0))
        running = []
        while not flows.queues.waiting:
            task = asyncio.ensure_future(flows.admit(flows.classify(ANN, GET)))
            for _ in range(5):
                await asyncio.sleep(0)
            running.append(task)
        running[-1].cancel()
        await asyncio.gather(running[-1], return_exceptions=True)
        assert flows.queues.waiting == 0
        for task in running[:-1]:
            task.result().end()
        assert all(not level.flows for level in flows.queues.levels.values())

    run_virtually(scenario())


def test_stored_objects_take_effect_after_invalidation() -> None:
    async def scenario() -> None:
        levels: list[dict[str, Any]] = []
        schemas: list[dict[str, Any]] = []
        flows = FlowController(read_objects=lambda: (schemas, levels))
        assert (await flows.admit(flows.classify(ANN, GET))).flow.level == "global-default"
        limited = {"nominalConcurrencyShares": 30, "limitResponse": {"type": "Reject"}}
        levels.append({"metadata": {"name": "mine", "uid": "1"}, "spec": {"type": "Limited", "limited": limited}})
        rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
        rules = [{"subjects": [{"kind": "User", "user": {"name": "ann"}}], "resourceRules": [rule]}]
        spec = {"priorityLevelConfiguration": {"name": "mine"}, "matchingPrecedence": 50, "rules": rules}
        schemas.append({"metadata": {"name": "ann", "uid": "2"}, "spec": spec})
        flows.invalidate()
        admission = await flows.admit(flows.classify(ANN, GET))
        assert admission.flow.level == "mine"
        assert dict(admission.headers) == {
            b"x-kubernetes-pf-flowschema-uid": b"2",
            b"x-kubernetes-pf-prioritylevel-uid": b"1",
        }
        other = await flows.admit(flows.classify(BOB, GET))  # only the mandatory objects remain for all others
        assert other.flow.level == "catch-all"
        assert flows.is_exempt(flows.classify(ADMIN, GET))

    run_virtually(scenario())


@pytest.mark.parametrize(("part", "most"), [(1, 8), (ANSWERS_PER_TURN, 2)])
def test_answers_take_turns(part: int, most: int) -> None:
    async def scenario() -> list[int]:
        flows, sent, turn = FlowController(), [], 0

        async def answer() -> None:
            await flows.pace(part)
            sent.append(turn)

        answers = [asyncio.ensure_future(answer()) for _ in range(100)]
        while not all(task.done() for task in answers):
            turn += 1
            await asyncio.sleep(0)
        return sent

    per_turn = Counter(run_virtually(scenario()))
    assert max(per_turn.values()) <= most


def test_watchers_of_one_flow_are_slowed_down_only_when_there_are_many() -> None:
    assert watch_pause(20) == 0
    assert watch_pause(520) == 2.5
