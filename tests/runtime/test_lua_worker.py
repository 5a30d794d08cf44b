import asyncio
import time
from collections.abc import Iterator

import pytest

from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.lua.sandbox import LIMITS, LuaLimits, ScriptResult
from trimtab.interpret.operations import InterpreterFailure
from trimtab.runtime.lua_worker import LuaWorker

BUSY_IN_C = """
local s = 'x' for i = 1, 23 do s = s .. s end
function F() while true do local copy = s .. 'y' end end
"""


@pytest.fixture(scope="module")
def worker() -> Iterator[LuaWorker]:
    worker = LuaWorker(seconds=60.0)
    yield worker
    worker.close()


def test_script_returns_the_same_values_from_a_separate_process(worker: LuaWorker) -> None:
    outcome = worker("function F(o) print('seen') return o.n + 1, {x = {}} end", "F", [{"n": 1}])
    assert outcome == ScriptResult((2, {"x": []}), ("seen",))


def test_fault_keeps_its_reason_across_the_process_boundary(worker: LuaWorker) -> None:
    outcome = worker("function F() while true do end end", "F", [], LIMITS)
    assert outcome == InterpreterFailure("OutOfInstructions", "F ran for more than 20000000 instructions")


def test_script_busy_in_c_code_is_killed_at_the_deadline() -> None:
    worker = LuaWorker(seconds=0.3)
    outcome = worker(BUSY_IN_C, "F", [], LuaLimits(instructions=10**12))
    worker.close()
    assert isinstance(outcome, InterpreterFailure)
    assert outcome.reason == "DeadlineExceeded"


def test_killed_script_is_not_run_again_at_once() -> None:
    worker = LuaWorker(seconds=0.3)
    worker(BUSY_IN_C, "F", [], LuaLimits(instructions=10**12))
    outcome = worker(BUSY_IN_C, "F", [], LuaLimits(instructions=10**12))
    worker.close()
    assert isinstance(outcome, InterpreterFailure)
    assert "not tried again for 60 s" in outcome.message


def test_other_scripts_run_after_a_kill() -> None:
    worker = LuaWorker(seconds=0.3)
    worker(BUSY_IN_C, "F", [], LuaLimits(instructions=10**12))
    outcome = worker("function F() return 1 end", "F", [])
    worker.close()
    assert outcome == ScriptResult((1,))


def test_object_larger_than_the_pipe_buffer_is_passed(worker: LuaWorker) -> None:
    words = ["x" * 1000] * 500
    outcome = worker("function F(o) return #o.words, o.words end", "F", [{"words": words}])
    assert outcome == ScriptResult((500, words))


def test_event_loop_continues_while_a_script_runs(worker: LuaWorker) -> None:
    async def count() -> tuple[int, object]:
        job = asyncio.ensure_future(worker.submit("function F() while true do end end", "F", []))
        turns = 0
        while not job.done():
            turns += 1
            await asyncio.sleep(0.001)
        return turns, job.result()

    turns, outcome = asyncio.run(count())
    assert turns > 3
    assert isinstance(outcome, InterpreterFailure)


def test_script_reads_the_current_time(worker: LuaWorker) -> None:
    outcome = worker("function F() return os.time() end", "F", [])
    assert isinstance(outcome, ScriptResult)
    assert abs(outcome.values[0] - time.time()) < 60


def test_interpreter_accepts_the_worker_as_executor(worker: LuaWorker) -> None:
    script = "function InterpretHealth(o) return o.status.ok end"
    spec = {
        "target": {"apiVersion": "ex.io/v1", "kind": "Foo"},
        "customizations": {"healthInterpretation": {"luaScript": script}},
    }
    interpreter = Interpreter.of([{"metadata": {"name": "foo"}, "spec": spec}], worker)
    assert interpreter.health({"apiVersion": "ex.io/v1", "kind": "Foo", "status": {"ok": True}}) == "Healthy"
