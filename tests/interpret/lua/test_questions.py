"""Calls of scripts that are not answered yet: equal calls have equal keys."""

from trimtab.interpret.lua.questions import AnswerPending, ScriptQuestion
from trimtab.interpret.lua.sandbox import LuaLimits


def question(script: str = "return 1", hook: str = "GetReplicas", replicas: int = 1) -> ScriptQuestion:
    return ScriptQuestion(script, hook, [{"spec": {"replicas": replicas}}], LuaLimits())


def test_key_is_that_of_the_script_the_hook_and_the_objects() -> None:
    assert question().key == question().key
    keys = {question().key, question(script="return 2").key, question(hook="Health").key, question(replicas=2).key}
    assert len(keys) == 4


def test_pending_answer_names_its_question() -> None:
    pending = AnswerPending(question())
    assert pending.question.key == question().key
    assert str(pending) == "GetReplicas has not been answered yet"
