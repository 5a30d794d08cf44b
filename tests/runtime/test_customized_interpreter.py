"""The interpreter follows the customizations of users."""

from collections.abc import Callable

import pytest

from trimtab.api.kinds.interpreter import ResourceInterpreterCustomization
from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Key, Raw
from trimtab.clock import LoopClock, run_virtually
from trimtab.interpret.operations import InterpreterError, InterpreterFailure, Operation
from trimtab.runtime.cache import Cache
from trimtab.runtime.customized_interpreter import CUSTOMIZATIONS, CustomizedInterpreter, scripts_of
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

KIND = ("example.com/v1", "Widget")
HEALTHY = "function InterpretHealth(o) return o.status.ok end"


def customization(script: str = HEALTHY) -> Raw:
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "widgets", "resourceVersion": "7"},
        "spec": {
            "target": {"apiVersion": KIND[0], "kind": KIND[1]},
            "customizations": {"healthInterpretation": {"luaScript": script}},
        },
    }


class Harness:
    """A cache, its interpreter, and what the interpreter reports."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.changes = 0
        self.failures: list[tuple[Key, str, InterpreterFailure]] = []
        self.customized = CustomizedInterpreter(
            self.cache,
            TRIMTAB,
            None,
            steady_seconds=lambda: 0.0,
            on_change=self.count_change,
            on_script_failure=lambda *failure: self.failures.append(failure),
        )
        self.customized.watch()

    def count_change(self) -> None:
        self.changes += 1

    def apply(self, raw: Raw) -> None:
        self.cache.table_of(ResourceInterpreterCustomization).put(raw)


def test_scripts_are_found_in_every_rule_of_a_customization() -> None:
    rules = {"a": {"luaScript": "one"}, "b": {"luaScript": ""}, "c": None, "d": {"luaScript": "two"}}
    assert scripts_of({"spec": {"customizations": rules}}) == ["one", "two"]
    assert scripts_of({}) == []


def run(scenario: Callable[[Harness], None]) -> None:
    async def body() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        cache = Cache(LocalClient(server))
        scenario(Harness(cache))
        await cache.close()
        await server.stop()

    run_virtually(body())


def test_new_customization_replaces_the_interpreter_and_is_announced() -> None:
    def scenario(harness: Harness) -> None:
        assert not harness.customized.interpreter.current.interprets(KIND, Operation.HEALTH)
        harness.apply(customization())
        assert harness.changes == 1
        assert harness.customized.interpreter.current.interprets(KIND, Operation.HEALTH)

    run(scenario)


def test_failing_script_is_reported_with_its_customization() -> None:
    script = "function InterpretHealth(o) error('broken') end"

    def scenario(harness: Harness) -> None:
        harness.apply(customization(script))
        widget = {"apiVersion": KIND[0], "kind": KIND[1], "metadata": {"name": "w"}}
        with pytest.raises(InterpreterError):
            harness.customized.interpreter.current.health(widget)
        ((key, failed, failure),) = harness.failures
        assert (key, failed) == (Key(CUSTOMIZATIONS, "", "widgets"), script)
        assert failure.message.startswith("InterpretHealth: ")

    run(scenario)
