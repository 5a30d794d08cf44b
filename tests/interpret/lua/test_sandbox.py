"""Malicious scripts, broken scripts, and what correct scripts may rely on."""

from typing import Any

import pytest

from trimtab.interpret.lua.sandbox import LuaLimits, ScriptResult, _Sandbox, check_syntax, run_script
from trimtab.interpret.operations import InterpreterFailure
from watchdog import cpu_watchdog

SMALL = LuaLimits(instructions=1_000_000, memory=16 << 20, now=86_400)


def run(body: str, *arguments: Any, limits: LuaLimits = SMALL) -> ScriptResult | InterpreterFailure:
    return run_script(f"function F(...) {body} end", "F", arguments, limits)


def result_of(body: str, *arguments: Any) -> Any:
    outcome = run(body, *arguments)
    assert isinstance(outcome, ScriptResult), outcome
    return outcome.values[0] if len(outcome.values) == 1 else outcome.values


def failure_reason(body: str, *arguments: Any) -> str:
    outcome = run(body, *arguments)
    assert isinstance(outcome, InterpreterFailure), outcome
    assert outcome.message
    return outcome.reason


ENDLESS_SCRIPTS = {
    "a loop": "while true do end",
    "a tail call": "local function f() return f() end f()",
    "a loop around pcall": "while true do pcall(function() while true do end end) end",
    "nested pcalls": "local function f() pcall(f) while true do pcall(f) end end f()",
    "an error handler that loops": "xpcall(function() while true do end end, function() while true do end end)",
    "a handler that raises again": "while true do xpcall(error, function() while true do error('again') end end) end",
    "a comparator that never decides": "local t = {} for i = 1, 99 do t[i] = i end "
    "table.sort(t, function() while true do end end)",
    "an iterator without end": "for _ in function() return 1 end do end",
    "a goto of repeats": "repeat local x until false",
    "a pattern that backtracks": "local s = '' for i = 1, 60 do s = s .. 'a' end return s:find('a*a*a*a*a*a*a*b')",
    "a lazy pattern that backtracks": "local s = '' for i = 1, 60 do s = s .. 'a' end return s:match('.-.-.-.-.-.-b')",
    "a gmatch over nothing": "while true do for _ in (''):gmatch('x*') do end end",
    "a plain search of its worst kind": "local s = 'a' for i = 1, 19 do s = s .. s end "
    "local p = s:sub(1, 200000) .. 'b' return s:find(p, 1, true)",
    "shifting a long list": "local t = {} for i = 1, 1e9 do table.insert(t, 1, 0) end",
    "calling the library for ever": "local kube = require('kube') while true do kube.resourceAdd('1', '1') end",
}


@pytest.mark.parametrize("body", ENDLESS_SCRIPTS.values(), ids=ENDLESS_SCRIPTS.keys())
def test_endless_script_runs_out_of_instructions(body: str) -> None:
    with cpu_watchdog():
        assert failure_reason(body) == "OutOfInstructions"


MEMORY_HUNGRY_SCRIPTS = {
    "a string that doubles": "local s = 'x' while true do s = s .. s end",
    "a table that grows": "local t = {} for i = 1, 1e9 do t[i] = {} end",
    "a table of long keys": "local s = 'x' for i = 1, 16 do s = s .. s end local t = {} for i = 1, 1e9 do t[s .. i] = 1 end",
    "throwing away what it makes": "local s = 'x' for i = 1, 18 do s = s .. s end for i = 1, 1e9 do local y = s .. i end",
    "concat of one long word": "local s = 'x' for i = 1, 17 do s = s .. s end local t = {} for i = 1, 1000 do t[i] = s end "
    "return table.concat(t)",
}


@pytest.mark.parametrize("body", MEMORY_HUNGRY_SCRIPTS.values(), ids=MEMORY_HUNGRY_SCRIPTS.keys())
def test_memory_hungry_script_runs_out_of_memory(body: str) -> None:
    assert failure_reason(body) == "OutOfMemory"


@pytest.mark.parametrize(
    "name",
    [
        "io",
        "debug",
        "package",
        "python",
        "coroutine",
        "os.execute",
        "os.getenv",
        "os.exit",
        "os.remove",
        "os.clock",
        "gcinfo",
    ],
)
def test_unsafe_libraries_are_absent(name: str) -> None:
    assert result_of(f"return {name} == nil")


@pytest.mark.parametrize(
    "call",
    [
        "load('x')", "loadstring('return 1')", "dofile('/etc/passwd')", "loadfile('/etc/passwd')", "setmetatable({}, {})",
        "getmetatable('')", "rawset({}, 1, 1)", "rawget({}, 1)", "rawequal(1, 1)", "setfenv(1, {})", "getfenv(1)",
        "newproxy(true)", "module('m')", "collectgarbage('stop')", "string.dump(print)", "string.rep('x', 9)",
        "string.gsub('a', 'a', 'b')", "('x'):rep(9)", "math.random()", "require('io')", "require('ffi')",
    ],
)  # fmt: skip
def test_unsafe_function_raises(call: str) -> None:
    assert failure_reason(f"return {call}") == "ScriptFailed"


def test_library_functions_are_plain_lua_functions() -> None:
    assert result_of("local f = require('kube').resourceAdd return type(f)") == "function"


def test_failing_library_call_raises_a_string() -> None:
    assert result_of("local ok, e = pcall(require('kube').resourceAdd, {}) return type(e)") == "string"


def test_precompiled_code_is_rejected() -> None:
    outcome = run_script("\x1bLuaQ\x00", "F", [], SMALL)
    assert outcome == InterpreterFailure("BadScript", "the script is precompiled; only source text is run")


def test_globals_are_not_shared_between_calls() -> None:
    script = "function F() count = (count or 0) + 1 string.len = nil return count end"
    run_script(script, "F", [], SMALL)
    assert run_script(script, "F", [], SMALL) == ScriptResult((1,))


def test_deep_recursion_is_a_script_failure() -> None:
    assert failure_reason("local function f() return 1 + f() end return f()") == "ScriptFailed"


def test_syntax_error_names_the_line() -> None:
    outcome = run_script("function F(", "F", [], SMALL)
    assert isinstance(outcome, InterpreterFailure)
    assert outcome.reason == "BadScript"
    assert ":1:" in outcome.message


def test_deeply_nested_source_is_rejected() -> None:
    outcome = run_script("return " + "(" * 100_000, "F", [], SMALL)
    assert isinstance(outcome, InterpreterFailure)
    assert outcome.reason == "BadScript"


def test_endless_loop_outside_of_the_function_runs_out_of_instructions() -> None:
    outcome = run_script("while true do end", "F", [], SMALL)
    assert isinstance(outcome, InterpreterFailure)
    assert outcome.reason == "OutOfInstructions"


def test_missing_function_is_named() -> None:
    assert run_script("x = 1", "F", [], SMALL) == InterpreterFailure(
        "NoFunction", "the script does not define the function F"
    )


def test_global_that_is_not_a_function_is_rejected() -> None:
    outcome = run_script("F = {}", "F", [], SMALL)
    assert isinstance(outcome, InterpreterFailure)
    assert outcome.reason == "NoFunction"


def test_error_message_of_the_script_is_returned() -> None:
    outcome = run("error('no such luck', 0)")
    assert outcome == InterpreterFailure("ScriptFailed", "no such luck")


def test_error_that_is_a_table_is_a_script_failure() -> None:
    assert failure_reason("error({})") == "ScriptFailed"


@pytest.mark.parametrize(
    "body",
    [
        "local t = {} t.t = t return t",
        "local t = {} for i = 1, 500 do t = {t} end return t",
        "return {1, 2, x = 3}",
        "return {[1] = 1, [3] = 3}",
        "return {[1.5] = 1}",
        "return {[true] = 1}",
        "return print",
        "return 0 / 0",
        "return 1 / 0",
        "return {a = '\\255'}",
    ],
)
def test_value_that_json_cannot_represent_is_a_bad_result(body: str) -> None:
    assert failure_reason(body) in ("BadResult", "ScriptFailed")


def test_integral_numbers_are_integers() -> None:
    assert repr(result_of("return 4 / 2")) == "2"


def test_arguments_are_not_changed_by_a_script() -> None:
    argument = {"list": [1, {"x": 1}]}
    result_of("local o = ... o.list[2].x = 2 o.list = nil", argument)
    assert argument == {"list": [1, {"x": 1}]}


def test_tuples_arrive_as_lists() -> None:
    assert result_of("local o = ... return #o.list", {"list": (1, 2)}) == 2


def test_printed_lines_are_returned_up_to_a_limit() -> None:
    outcome = run("for i = 1, 1000 do print('line', i) end")
    assert isinstance(outcome, ScriptResult)
    assert outcome.printed[:2] == ("line\t1", "line\t2")
    assert len(outcome.printed) == 100


def test_pcall_catches_ordinary_errors() -> None:
    assert result_of("return pcall(error, 'x', 0)") == (False, "x")


def test_xpcall_passes_the_error_to_its_handler() -> None:
    assert result_of("return xpcall(function() error('x', 0) end, function(e) return e .. '!' end)") == (False, "x!")


def test_time_comes_from_the_limits() -> None:
    assert result_of("return os.time(), os.date('!%Y-%m-%d')") == (86_400, "1970-01-02")


def test_a_syntax_check_runs_nothing() -> None:
    assert check_syntax("while true do end") is None


def test_a_syntax_check_finds_what_does_not_parse() -> None:
    fault = check_syntax("function (")
    assert fault is not None
    assert fault.reason == "BadScript"


def test_a_python_object_that_a_script_could_get_hold_of_shows_no_attributes() -> None:
    lua = _Sandbox(LuaLimits())._lua
    lua.globals()["leaked"] = object()
    with pytest.raises(Exception, match="__class__ is not available to scripts"):
        lua.execute("return leaked.__class__")
