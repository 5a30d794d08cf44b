"""Calls of scripts and webhooks that are not answered yet.

A script may take long, so a reconcile never waits for one. The interpreter looks the answer up, and where there is none
it raises `AnswerPending`, which ends the reconcile. The shell runs the script and reconciles again with the answer.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from trimtab.interpret.lua.sandbox import LuaLimits


class ScriptQuestion(NamedTuple):
    """One call of one function of a script."""

    script: str
    hook: str
    arguments: Sequence[Any]
    limits: LuaLimits

    @property
    def key(self) -> tuple[str, str, bytes]:
        """Equal keys have equal answers: the key holds the script and a digest of the objects it is called with."""
        content = msgspec.json.encode(list(self.arguments))
        return self.script, self.hook, hashlib.blake2b(content, digest_size=16).digest()


class Question(Protocol):
    """A call of a rule of a user: of a script, or of a webhook (`webhook_rules.py`)."""

    @property
    def hook(self) -> str: ...

    @property
    def key(self) -> tuple[str, str, bytes]: ...


class AnswerPending(Exception):
    """The answer to this question is not known yet; not an `InterpreterError`, because no rule has failed."""

    def __init__(self, question: Question) -> None:
        super().__init__(f"{question.hook} has not been answered yet")
        self.question = question
