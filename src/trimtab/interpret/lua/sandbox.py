"""Runs one function of a user's Lua script, isolated and with limits on instructions and memory."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, Protocol

import msgspec
from lupa import lua51

from trimtab.interpret.lua.kube_library import FUNCTIONS, call_function
from trimtab.interpret.operations import InterpreterFailure

_MAX_DEPTH = 100
_PRECOMPILED = "\x1b"
_PRECOMPILED_FAILURE = InterpreterFailure("BadScript", "the script is precompiled; only source text is run")


class LuaLimits(NamedTuple):
    """The limits of one call."""

    instructions: int = 20_000_000
    memory: int = 64 << 20
    """Bytes allocated in total, including the arguments."""
    now: int = 0
    """The result of `os.time()`, in seconds: the time is an input here."""


LIMITS = LuaLimits()


class ScriptResult(NamedTuple):
    """A call that returned: plain values, where an empty list stands for any empty table."""

    values: tuple[Any, ...]
    printed: tuple[str, ...] = ()


class Executor(Protocol):
    """Runs a script: `run_script` does so in this process, a worker process does so under a deadline."""

    def __call__(
        self, script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits
    ) -> ScriptResult | InterpreterFailure: ...


class NotJsonValue(Exception):
    """A value from a script that JSON cannot represent."""


def run_script(
    script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits = LIMITS
) -> ScriptResult | InterpreterFailure:
    """The result of the function `hook` of `script` for `arguments`, in a fresh Lua state."""
    if script.startswith(_PRECOMPILED):
        return _PRECOMPILED_FAILURE
    try:
        return _Sandbox(limits).call(script, hook, arguments)
    except lua51.LuaMemoryError:
        return InterpreterFailure("OutOfMemory", f"the script needed more than {limits.memory >> 20} MiB of memory")


def check_syntax(script: str) -> InterpreterFailure | None:
    """The error that prevents the script from being loaded, if any; nothing of it is run."""
    if script.startswith(_PRECOMPILED):
        return _PRECOMPILED_FAILURE
    try:
        lua51.LuaRuntime(register_eval=False, register_builtins=False, max_memory=LIMITS.memory).compile(script)
    except lua51.LuaSyntaxError as error:
        return InterpreterFailure("BadScript", str(error))
    except lua51.LuaError as error:
        return InterpreterFailure("BadScript", str(error) or "the script is too large to be loaded")
    return None


class _Sandbox:
    def __init__(self, limits: LuaLimits) -> None:
        self._limits = limits
        self._lua = lua51.LuaRuntime(
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=_refuse_attribute,
            max_memory=limits.memory,
        )
        host = self._lua.table_from({name: self._host_function(name) for name in FUNCTIONS})
        self._state = self._lua.table_from(
            {"left": limits.instructions, "now": limits.now, "printed": self._lua.table()}
        )
        self._start = self._lua.compile(_prelude())(self._state, host)

    def _host_function(self, name: str) -> Callable[..., Any]:
        def call(count: int, *given: Any) -> tuple[bool, Any]:
            try:
                succeeded, result = call_function(name, count, tuple(to_json_value(value) for value in given))
            except NotJsonValue as error:
                return False, str(error)
            return succeeded, self._lua_value(result)

        return call

    def _lua_value(self, value: Any) -> Any:
        return self._lua.table_from(value, recursive=True) if isinstance(value, dict | list) else value

    def call(self, script: str, hook: str, arguments: Sequence[Any]) -> ScriptResult | InterpreterFailure:
        # through JSON and back, so that a script can only ever reach plain values
        lua_arguments = [self._lua_value(value) for value in msgspec.json.decode(msgspec.json.encode(list(arguments)))]
        try:
            self._start()
            self._lua.execute(script)
            function = self._lua.globals()[hook]
            if lua51.lua_type(function) != "function":
                return InterpreterFailure("NoFunction", f"the script does not define the function {hook}")
            returned = function(*lua_arguments)
        except lua51.LuaMemoryError:
            raise
        except lua51.LuaSyntaxError as error:
            return InterpreterFailure("BadScript", str(error))
        except (lua51.LuaError, UnicodeDecodeError, RecursionError) as error:
            return self._failure(hook, error)
        return self._read_result(returned)

    def _failure(self, hook: str, error: Exception) -> InterpreterFailure:
        if self._state["spent"]:
            return InterpreterFailure(
                "OutOfInstructions", f"{hook} ran for more than {self._limits.instructions} instructions"
            )
        return InterpreterFailure("ScriptFailed", str(error) or f"{hook} raised an error that is not a string")

    def _read_result(self, returned: Any) -> ScriptResult | InterpreterFailure:
        # reading the result may allocate, outside of any protected call
        self._lua.set_max_memory(2 * self._limits.memory)
        values = returned if isinstance(returned, tuple) else (returned,)
        try:
            return ScriptResult(
                tuple(to_json_value(value) for value in values), tuple(to_json_value(self._state["printed"]))
            )
        except NotJsonValue as error:
            return InterpreterFailure("BadResult", str(error))
        except UnicodeDecodeError:
            return InterpreterFailure("BadResult", "the result holds a string that is not UTF-8")


@cache
def _prelude() -> bytes:
    """The code that makes a fresh state safe, compiled once: parsing it again would double the cost of a call."""
    source = resources.files(__package__).joinpath("sandbox.lua").read_bytes()
    dump: Any = lua51.LuaRuntime(encoding=None).eval(b"function(code) return string.dump(loadstring(code)) end")
    compiled: bytes = dump(source)
    return compiled


def _refuse_attribute(thing: object, name: object, is_setting: bool) -> object:
    raise AttributeError(f"{name} is not available to scripts")


def to_json_value(value: Any, depth: int = 0) -> Any:
    """A Lua value as JSON; an empty table becomes an empty list."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJsonValue(f"{value} is not a number that JSON can hold")
        return value
    if lua51.lua_type(value) != "table":
        raise NotJsonValue(f"a {lua51.lua_type(value) or type(value).__name__} cannot be part of a result")
    if depth >= _MAX_DEPTH:
        raise NotJsonValue(f"the tables are nested more than {_MAX_DEPTH} deep, or contain themselves")
    return _table_to_json(dict(value.items()), depth)


def _table_to_json(entries: dict[Any, Any], depth: int) -> Any:
    if all(isinstance(key, str) for key in entries) and entries:
        return {key: to_json_value(value, depth + 1) for key, value in entries.items()}
    if any(isinstance(key, bool) or not isinstance(key, int) for key in entries):
        raise NotJsonValue("the keys of a table are neither all names nor all whole numbers")
    if set(entries) != set(range(1, len(entries) + 1)):
        raise NotJsonValue("a list has holes")
    return [to_json_value(entries[index], depth + 1) for index in range(1, len(entries) + 1)]
