"""Webhooks are called beside the event loop; their answers are looked up, and failures are tried again."""

import asyncio
from collections.abc import Callable

import pytest

from trimtab.api.value import Raw
from trimtab.clock import run_virtually
from trimtab.interpret.lua.questions import AnswerPending
from trimtab.interpret.operations import InterpreterFailure
from trimtab.interpret.webhook_rules import WebhookQuestion
from trimtab.runtime.webhook_answers import CALLS_AT_A_TIME, VALID_SECONDS, WebhookAnswers


def question(number: int = 0) -> WebhookQuestion:
    return WebhookQuestion("examples", {"url": "https://x"}, 3, "InterpretHealth", {"object": {"n": number}})


class Webhook:
    """Answers after a second; `replies` come first."""

    def __init__(self, *replies: Raw | InterpreterFailure) -> None:
        self.replies = list(replies)
        self.calls = 0
        self.running = 0
        self.most = 0

    async def __call__(self, question: WebhookQuestion) -> Raw | InterpreterFailure:
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(1)
        self.running -= 1
        return self.replies.pop(0) if self.replies else {"healthy": True}


def answers_of(webhook: Webhook) -> WebhookAnswers:
    return WebhookAnswers(webhook, steady_seconds=asyncio.get_running_loop().time)


async def answer_to(answers: WebhookAnswers, asked: WebhookQuestion) -> Raw | InterpreterFailure:
    answered = asyncio.Event()
    with pytest.raises(AnswerPending):
        answers(asked)
    answers.ask(asked, answered.set)
    await answered.wait()
    return answers(asked)


def test_answer_is_found_until_it_expires_and_equal_questions_are_one_call() -> None:
    async def run() -> None:
        webhook = Webhook()
        answers = answers_of(webhook)
        woken: list[Callable[[], None]] = []
        answers.ask(question(), lambda: woken.append(lambda: None))
        assert not answers.is_idle
        assert await answer_to(answers, question()) == {"healthy": True}
        assert (webhook.calls, len(woken), answers.is_idle) == (1, 1, True)
        await asyncio.sleep(VALID_SECONDS)
        with pytest.raises(AnswerPending):
            answers(question())
        await answers.close()

    run_virtually(run())


def test_failure_is_tried_again_until_the_webhook_answers() -> None:
    async def run() -> None:
        failure = InterpreterFailure("WebhookUnavailable", "refused")
        webhook = Webhook(failure, failure)
        answers = answers_of(webhook)

        def again() -> None:
            try:
                seen.append(answers(question()))
            except AnswerPending as pending:
                answers.ask(pending.question, again)  # type: ignore[arg-type]

        seen: list[Raw | InterpreterFailure] = []
        answers.ask(question(), again)
        await asyncio.sleep(30)
        assert seen == [failure, failure, {"healthy": True}]
        await answers.close()

    run_virtually(run())


def test_calls_of_one_webhook_are_limited() -> None:
    async def run() -> None:
        webhook = Webhook()
        answers = answers_of(webhook)
        for number in range(3 * CALLS_AT_A_TIME):
            answers.ask(question(number), lambda: None)
        await asyncio.sleep(10)
        assert (webhook.calls, webhook.most) == (3 * CALLS_AT_A_TIME, CALLS_AT_A_TIME)

    run_virtually(run())


def test_readers_get_values_of_their_own() -> None:
    async def run() -> None:
        answers = answers_of(Webhook({"rawStatus": {"list": []}}))
        first = await answer_to(answers, question())
        assert isinstance(first, dict)
        first["rawStatus"]["list"].append(1)
        assert answers(question()) == {"rawStatus": {"list": []}}

    run_virtually(run())


def test_without_a_way_to_call_every_question_fails_at_once() -> None:
    answers = WebhookAnswers(None, steady_seconds=lambda: 0.0)
    assert answers(question()) == InterpreterFailure("WebhookUnavailable", "webhooks are not called here")
