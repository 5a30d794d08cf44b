"""Answers of scripts are looked up; a script that has to run first blocks nobody."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from trimtab.interpret.lua.questions import AnswerPending, ScriptQuestion
from trimtab.interpret.lua.sandbox import LIMITS, LuaLimits, ScriptResult, run_script
from trimtab.interpret.operations import InterpreterFailure
from trimtab.runtime import script_answers
from trimtab.runtime.script_answers import RETRY_SECONDS, TIME_SECONDS, ScriptAnswers

DOUBLE = "function F(o) return o.n * 2 end"
FAILING = "function F(o) error('no') end"


class Runner:
    """Runs scripts and counts them; `replies` replace the results of the first ones."""

    def __init__(self, *replies: ScriptResult | InterpreterFailure | Exception) -> None:
        self.replies = list(replies)
        self.ran: list[tuple[str, Any]] = []

    async def __call__(
        self, script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits = LIMITS
    ) -> ScriptResult | InterpreterFailure:
        self.ran.append((script, arguments[0]["n"]))
        await asyncio.sleep(0)
        reply = self.replies.pop(0) if self.replies else run_script(script, hook, arguments, limits)
        if isinstance(reply, Exception):
            raise reply
        return reply


class Answers(ScriptAnswers):
    """Answers with a clock that the test sets."""

    def __init__(self, run: Runner | None) -> None:
        self.seconds = 0.0
        self.failures: list[tuple[str, str]] = []
        super().__init__(
            run,
            steady_seconds=lambda: self.seconds,
            on_failure=lambda question, failure: self.failures.append((question.script, failure.reason)),
        )

    async def until_idle(self) -> None:
        while not self.is_idle:  # noqa: ASYNC110 - every turn counts, not the time
            await asyncio.sleep(0)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def question(script: str, n: int) -> ScriptQuestion:
    return ScriptQuestion(script, "F", [{"n": n}], LIMITS)


async def ask(answers: Answers, script: str, n: int) -> None:
    """Look an answer up that is missing, and let the script run."""
    with pytest.raises(AnswerPending) as pending:
        answers(script, "F", [{"n": n}])
    answers.ask(pending.value.question, lambda: None)
    await answers.until_idle()


def test_missing_answer_is_a_question_and_then_an_answer_by_content() -> None:
    runner = Runner()
    answers = Answers(runner)

    async def scenario() -> None:
        await ask(answers, DOUBLE, 4)
        assert answers(DOUBLE, "F", [{"n": 4}]) == ScriptResult((8,))
        with pytest.raises(AnswerPending):
            answers(DOUBLE, "F", [{"n": 5}])
        with pytest.raises(AnswerPending):
            answers(DOUBLE + " ", "F", [{"n": 4}])
        assert len(runner.ran) == 1

    run(scenario)


def test_everybody_who_asked_is_called_and_the_script_runs_once() -> None:
    runner, called = Runner(), []
    answers = Answers(runner)

    async def scenario() -> None:
        for name in ("a", "b"):
            answers.ask(question(DOUBLE, 1), lambda name=name: called.append(name))
        await asyncio.sleep(0)
        answers.ask(question(DOUBLE, 1), lambda: called.append("asked while it runs"))
        await answers.until_idle()

    run(scenario)
    assert called == ["a", "b", "asked while it runs"]
    assert len(runner.ran) == 1


def test_scripts_take_turns() -> None:
    runner = Runner()
    answers, other = Answers(runner), DOUBLE + " -- other"

    async def scenario() -> None:
        for n in range(3):
            answers.ask(question(DOUBLE, n), lambda: None)
        answers.ask(question(other, 0), lambda: None)
        await answers.until_idle()

    run(scenario)
    assert runner.ran == [(DOUBLE, 0), (other, 0), (DOUBLE, 1), (DOUBLE, 2)]


def test_loop_turns_while_a_script_does_not_end() -> None:
    """The script ends only after the loop has turned a hundred times: if it blocked the loop, it would never end."""
    turned = threading.Event()

    def wait_for_turns(script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits) -> ScriptResult:
        turned.wait()
        return ScriptResult((True,))

    async def submit(
        script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits = LIMITS
    ) -> ScriptResult | InterpreterFailure:
        return await asyncio.to_thread(wait_for_turns, script, hook, arguments, limits)

    async def scenario() -> None:
        answers = ScriptAnswers(submit, steady_seconds=lambda: 0.0)
        answered = asyncio.Event()
        answers.ask(question(DOUBLE, 1), answered.set)
        for _ in range(100):
            await asyncio.sleep(0)
            assert not answered.is_set()
        turned.set()
        await answered.wait()
        assert answers(DOUBLE, "F", [{"n": 1}]) == ScriptResult((True,))

    run(scenario)


@pytest.mark.parametrize("reply", [InterpreterFailure("DeadlineExceeded", "slow"), OSError("no more processes")])
def test_failure_that_may_pass_is_tried_again_after_a_while(reply: InterpreterFailure | Exception) -> None:
    answers = Answers(Runner(reply))

    async def scenario() -> None:
        await ask(answers, DOUBLE, 4)
        assert isinstance(answers(DOUBLE, "F", [{"n": 4}]), InterpreterFailure)
        answers.seconds = RETRY_SECONDS
        await ask(answers, DOUBLE, 4)
        assert answers(DOUBLE, "F", [{"n": 4}]) == ScriptResult((8,))

    run(scenario)


def test_failure_of_the_script_stays_until_users_change_scripts() -> None:
    answers = Answers(Runner())

    async def scenario() -> None:
        await ask(answers, FAILING, 1)
        answers.seconds = 10 * RETRY_SECONDS
        assert isinstance(answers(FAILING, "F", [{"n": 1}]), InterpreterFailure)
        answers.forget_failures()
        await ask(answers, FAILING, 1)
        assert answers.failures == [(FAILING, "ScriptFailed")] * 2

    run(scenario)


def test_answer_of_a_script_that_reads_the_time_expires() -> None:
    answers, script = Answers(Runner()), "function F(o) return os.time() > 0 end"

    async def scenario() -> None:
        await ask(answers, script, 1)
        answers(script, "F", [{"n": 1}])
        answers.seconds = TIME_SECONDS
        await ask(answers, script, 1)

    run(scenario)


def test_oldest_answers_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_answers, "MAX_BYTES", 10)
    monkeypatch.setattr(script_answers, "MIN_ANSWERS", 2)
    answers = Answers(Runner())

    async def scenario() -> None:
        for n in (1, 2):
            await ask(answers, DOUBLE, n)
        answers(DOUBLE, "F", [{"n": 1}])
        await ask(answers, DOUBLE, 3)
        answers(DOUBLE, "F", [{"n": 1}])
        with pytest.raises(AnswerPending):
            answers(DOUBLE, "F", [{"n": 2}])

    run(scenario)


def test_readers_get_values_of_their_own() -> None:
    answers = Answers(None)
    script = "function F(o) return {n = o.n} end"
    first = answers(script, "F", [{"n": 1}])
    assert isinstance(first, ScriptResult)
    first.values[0]["n"] = 2
    assert answers(script, "F", [{"n": 1}]) == ScriptResult(({"n": 1},))


def test_scripts_run_at_once_without_a_worker() -> None:
    answers = Answers(None)
    assert answers(DOUBLE, "F", [{"n": 3}]) == ScriptResult((6,))
    assert isinstance(answers(FAILING, "F", [{"n": 3}]), InterpreterFailure)
    assert answers.failures == [(FAILING, "ScriptFailed")]
    assert answers.is_idle
