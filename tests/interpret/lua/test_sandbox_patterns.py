"""The sandbox's pattern matcher agrees with Lua's own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lupa import lua51

from trimtab.interpret.lua.sandbox import LuaLimits, run_script
from trimtab.interpret.operations import InterpreterFailure

LIMITS = LuaLimits(instructions=5_000_000, memory=32 << 20)
FIND = "function F(s, p, init) return pcall(string.find, s, p, init) end"
EACH = "function F(s, p) local r = {} for a, b in s:gmatch(p) do r[#r + 1] = {a, b or '-'} end return r end"

CASES = [
    ("key=value", "(%w+)=(%w+)"), ("v1.30.2-rc", "^v(%d+)%.(%d+)%.(%d+)"), ("a.b", "."), ("a.b", "%."), ("abc", "b*"),
    ("aaa", "a-b"), ("aaab", "a-b"), ("", "x*"), ("x", "()x()"), ("f(a(b)c)d", "%b()"), ("THE (quick) fox", "%f[%a]%a+"),
    ("hello hello", "(%w+) %1"), ("[x]", "[%]]"), ("a-b", "[a-]+"), ("]", "[]]"), ("^", "[%^x]"), ("x^", "[^x]"), ("a\tb", "%s"),
    ("A1_", "[%w_]+"), ("0x1F", "%x+$"), ("end", "d$"), ("end$", "d$$"), ("a$b", "a$b"), ("abc", "^b"), ("nine", "n?i"),
    ("caf\u00e9", "[^%a]+"), ("x", "(x"), ("x", "x)"), ("x", "%"), ("x", "[x"), ("x", "%1"), ("x", "%f"), ("x", "%b"), ("x\0y", "%z"),
    ("2024-01-01T00:00:00Z", "(%d+)-(%d+)-(%d+)T"), ("image:tag@sha256:abc", "^([^:@]+):?([^@]*)@?(.*)$"), ("a,b,,c", "[^,]*"),
]  # fmt: skip


def run_in_lua(script: str, *arguments: object) -> object:
    lua = lua51.LuaRuntime(unpack_returned_tuples=True, encoding="latin-1")
    lua.execute(script)
    return to_python(lua.globals()["F"](*arguments))


def to_python(value: object) -> object:
    if lua51.lua_type(value) == "table":
        return [to_python(inner) for inner in value.values()]  # type: ignore[attr-defined]
    return tuple(map(to_python, value)) if isinstance(value, tuple) else value


def run_in_sandbox(script: str, *arguments: object) -> object:
    outcome = run_script(script, "F", arguments, LIMITS)
    assert not isinstance(outcome, InterpreterFailure), outcome
    return outcome.values if len(outcome.values) > 1 else outcome.values[0]


def without_error_text(outcome: object) -> object:
    """Only whether there was an error must agree, not its text."""
    return "error" if isinstance(outcome, tuple) and outcome[0] is False else outcome


@pytest.mark.parametrize(("subject", "pattern"), [case for case in CASES if case[0].isascii()])
def test_find_agrees_with_lua(subject: str, pattern: str) -> None:
    assert without_error_text(run_in_sandbox(FIND, subject, pattern)) == without_error_text(
        run_in_lua(FIND, subject, pattern)
    )


@settings(max_examples=150, deadline=None)
@given(st.text("ab1 .", max_size=12), st.text("ab1%.*+-?[]^$()dw", max_size=7), st.integers(-4, 14))
def test_find_agrees_with_lua_on_random_patterns(subject: str, pattern: str, init: int) -> None:
    found = run_in_sandbox(FIND, subject, pattern, init)
    if isinstance(found, tuple) and str(found[1]).startswith(("malformed", "missing", "unbalanced")):
        return  # the sandbox parses the whole pattern first; Lua raises only when it reaches the error
    assert without_error_text(found) == without_error_text(run_in_lua(FIND, subject, pattern, init))


@pytest.mark.parametrize("pattern", ["[^,]+", "%a", "(%w)(%w)", "x*", "b"])
def test_gmatch_agrees_with_lua(pattern: str) -> None:
    assert run_in_sandbox(EACH, "ab,cd,,e", pattern) == run_in_lua(EACH, "ab,cd,,e", pattern)


def test_long_text_is_split_within_the_instruction_limit() -> None:
    script = "function F(s) local n = 0 for line in s:gmatch('[^\\n]+') do n = n + 1 end return n end"
    assert run_in_sandbox(script, "some=line\n" * 2000) == 2000


def test_numbers_are_searched_as_strings() -> None:
    assert run_in_sandbox("function F() return string.find(1234, 34, -2) end") == (3, 4)
