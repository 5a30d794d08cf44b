"""The answers of users' interpreter webhooks, and the calls that are under way.

As with scripts (`script_answers.py`), a reconcile looks an answer up, and where there is none it ends with the question. An
answer is valid for a minute: all operations of one reconcile find theirs, and a later change asks again, because only the
webhook knows what else its answers depend on. A call that fails is tried again with growing pauses.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from trimtab.api.value import Raw
from trimtab.interpret.lua.questions import AnswerPending
from trimtab.interpret.operations import InterpreterFailure
from trimtab.interpret.webhook_rules import WebhookQuestion
from trimtab.tasks import stop_tasks

VALID_SECONDS = 60.0
FIRST_RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 60.0
MAX_ANSWERS = 20_000
CALLS_AT_A_TIME = 8
"""Concurrent calls of one webhook."""

log = logging.getLogger("trimtab.scripts")

CallWebhook = Callable[[WebhookQuestion], Awaitable["Raw | InterpreterFailure"]]
QuestionKey = tuple[str, str, bytes]


class _KnownAnswer(NamedTuple):
    encoded: bytes
    """The response as JSON: every reader gets values of its own."""
    failure: InterpreterFailure | None
    expires: float


class WebhookAnswers:
    """Called with a question: returns the response of the webhook, or raises `AnswerPending`."""

    def __init__(self, call: CallWebhook | None, *, steady_seconds: Callable[[], float]) -> None:
        """Without `call` every question has the same failure."""
        self._call = call
        self._seconds = steady_seconds
        self._answers: OrderedDict[QuestionKey, _KnownAnswer] = OrderedDict()
        self._waiting: dict[QuestionKey, list[Callable[[], None]]] = {}
        self._failures: dict[str, int] = {}
        """Failures in a row, by webhook."""
        self._limits: dict[str, asyncio.Semaphore] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, question: WebhookQuestion) -> Raw | InterpreterFailure:
        if self._call is None:
            return InterpreterFailure("WebhookUnavailable", "webhooks are not called here")
        answer = self._answers.get(question.key)
        if answer is None or answer.expires <= self._seconds():
            raise AnswerPending(question)
        return answer.failure if answer.failure is not None else msgspec.json.decode(answer.encoded, type=dict)

    @property
    def is_idle(self) -> bool:
        return not self._waiting

    def ask(self, question: WebhookQuestion, on_answer: Callable[[], None]) -> None:
        """Call the webhook and call `on_answer` when the answer can be looked up."""
        key = question.key
        if key in self._waiting:
            self._waiting[key].append(on_answer)
            return
        self._waiting[key] = [on_answer]
        task = asyncio.get_running_loop().create_task(self._answer(question), name="webhook")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        self._waiting.clear()
        await stop_tasks(list(self._tasks), log)

    async def _answer(self, question: WebhookQuestion) -> None:
        assert self._call is not None
        limit = self._limits.setdefault(question.configuration, asyncio.Semaphore(CALLS_AT_A_TIME))
        async with limit:
            outcome = await self._call(question)
        key = question.key
        waiting = self._waiting.pop(key, [])
        retry = self._keep(key, question.configuration, outcome)
        for on_answer in waiting:
            on_answer()
            if retry is not None:
                asyncio.get_running_loop().call_later(retry, on_answer)

    def _keep(self, key: QuestionKey, webhook: str, outcome: Raw | InterpreterFailure) -> float | None:
        """Keep an answer; returns the seconds after which a failure is tried again."""
        now, retry = self._seconds(), None
        if isinstance(outcome, InterpreterFailure):
            count = self._failures[webhook] = self._failures.get(webhook, 0) + 1
            retry = min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(count - 1, 10))
            answer = _KnownAnswer(b"", outcome, now + retry)
            if count == 1:
                log.warning("%s: %s", webhook, outcome.message)
        else:
            self._failures.pop(webhook, None)
            answer = _KnownAnswer(msgspec.json.encode(outcome), None, now + VALID_SECONDS)
        self._answers[key] = answer
        self._answers.move_to_end(key)
        while len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)
        return retry
