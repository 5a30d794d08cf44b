"""The answers of users' scripts, by content, and the questions that wait for one.

A reconcile looks an answer up. Where there is none, it ends with the question (`AnswerPending`) and writes nothing. The
question goes to a worker process and the key is reconciled again with the answer, so that a slow script delays only the
objects that need it: neither the event loop nor other keys of the controller wait. Scripts take turns: one that is slow
for a thousand objects runs once, then the next script runs once.

Without a worker (in tests and on virtual time) scripts run in this process as soon as they are asked.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from trimtab.interpret.lua.questions import AnswerPending, Question, ScriptQuestion
from trimtab.interpret.lua.sandbox import LIMITS, LuaLimits, ScriptResult, run_script
from trimtab.interpret.operations import InterpreterFailure
from trimtab.interpret.webhook_rules import WebhookQuestion
from trimtab.runtime.webhook_answers import CallWebhook, WebhookAnswers
from trimtab.tasks import stop_tasks

MAX_BYTES = 64 << 20
MIN_ANSWERS = 256
"""This many answers are kept whatever their size, so that the answers of one reconcile do not displace each other."""
RETRY_SECONDS = 60.0
"""A failure that another attempt may not have, such as a missed deadline, is forgotten after this time."""
TIME_SECONDS = 30.0
"""How long the answer of a script that reads the time is valid."""
TIME_LIBRARY = re.compile(r"\bos\b")
PASSING_FAILURES = ("DeadlineExceeded", "ScriptCrashed", "WorkerUnavailable")

log = logging.getLogger("trimtab.scripts")

Outcome: TypeAlias = ScriptResult | InterpreterFailure
QuestionKey: TypeAlias = tuple[str, str, bytes]


class ScriptRunner(Protocol):
    """Runs a script without blocking the event loop."""

    async def __call__(
        self, script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits = LIMITS
    ) -> Outcome: ...


class _ScriptAnswer(NamedTuple):
    encoded: bytes
    """The result as JSON: every reader gets values of its own."""
    failure: InterpreterFailure | None
    expires: float | None

    @property
    def outcome(self) -> Outcome:
        if self.failure is not None:
            return self.failure
        return msgspec.json.decode(self.encoded, type=ScriptResult)


class _Waiting(NamedTuple):
    question: ScriptQuestion
    on_answer: list[Callable[[], None]]


class ScriptAnswers:
    """Called like `run_script`, but raises `AnswerPending` where the script has to run first."""

    def __init__(
        self,
        run: ScriptRunner | None,
        *,
        steady_seconds: Callable[[], float],
        on_failure: Callable[[ScriptQuestion, InterpreterFailure], None] = lambda *_: None,
        call_webhook: CallWebhook | None = None,
    ) -> None:
        """`steady_seconds` reads a clock for durations; `on_failure` is called when a script has failed."""
        self.webhooks = WebhookAnswers(call_webhook, steady_seconds=steady_seconds)
        self._run = run
        self._seconds = steady_seconds
        self._on_failure = on_failure
        self._answers: OrderedDict[QuestionKey, _ScriptAnswer] = OrderedDict()
        self._bytes = 0
        self._waiting: OrderedDict[str, OrderedDict[QuestionKey, _Waiting]] = OrderedDict()
        """The questions of each script, and the scripts in the order of their turns."""
        self._task: asyncio.Task[None] | None = None

    def __call__(self, script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits = LIMITS) -> Outcome:
        question = ScriptQuestion(script, hook, arguments, limits)
        key = question.key
        answer = self._answers.get(key)
        if answer is None or (answer.expires is not None and answer.expires <= self._seconds()):
            if self._run is not None:
                raise AnswerPending(question)
            answer = self._keep(key, question, run_script(script, hook, arguments, limits))
        else:
            self._answers.move_to_end(key)
        return answer.outcome

    @property
    def is_idle(self) -> bool:
        """Whether no question waits for its answer."""
        return not self._waiting and self.webhooks.is_idle

    def ask(self, question: Question, on_answer: Callable[[], None]) -> None:
        """Run the script soon, or call the webhook, and call `on_answer` when its answer can be looked up."""
        if isinstance(question, WebhookQuestion):
            self.webhooks.ask(question, on_answer)
            return
        assert isinstance(question, ScriptQuestion)
        questions = self._waiting.setdefault(question.script, OrderedDict())
        questions.setdefault(question.key, _Waiting(question, [])).on_answer.append(on_answer)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._answer_all(), name="scripts")

    def forget_failures(self) -> None:
        """Run the scripts that have failed again: users have changed some."""
        for key in [key for key, answer in self._answers.items() if answer.failure is not None]:
            self._drop(key)

    async def close(self) -> None:
        """Drop all questions; a script that runs now ends at its deadline."""
        self._waiting.clear()
        await self.webhooks.close()
        if self._task is not None:
            await stop_tasks([self._task], log)
            self._task = None

    async def _answer_all(self) -> None:
        while self._waiting:
            script, questions = next(iter(self._waiting.items()))
            key, waiting = next(iter(questions.items()))
            self._keep(key, waiting.question, await self._outcome_of(waiting.question))
            del questions[key]
            if questions:
                self._waiting.move_to_end(script)
            else:
                del self._waiting[script]
            for on_answer in waiting.on_answer:
                on_answer()
        self._task = None

    async def _outcome_of(self, question: ScriptQuestion) -> Outcome:
        assert self._run is not None
        try:
            return await self._run(*question)
        except OSError as fault:
            return InterpreterFailure("WorkerUnavailable", f"the worker process cannot be started: {fault}")

    def _keep(self, key: QuestionKey, question: ScriptQuestion, outcome: Outcome) -> _ScriptAnswer:
        if isinstance(outcome, InterpreterFailure):
            passes = outcome.reason in PASSING_FAILURES
            answer = _ScriptAnswer(b"", outcome, self._seconds() + RETRY_SECONDS if passes else None)
            self._on_failure(question, outcome)
        else:
            reads_time = TIME_LIBRARY.search(question.script) is not None
            expires = self._seconds() + TIME_SECONDS if reads_time else None
            answer = _ScriptAnswer(msgspec.json.encode(outcome), None, expires)
        if key in self._answers:
            self._drop(key)
        self._answers[key] = answer
        self._bytes += len(answer.encoded)
        while self._bytes > MAX_BYTES and len(self._answers) > MIN_ANSWERS:
            self._drop(next(iter(self._answers)))
        return answer

    def _drop(self, key: QuestionKey) -> None:
        self._bytes -= len(self._answers.pop(key).encoded)
