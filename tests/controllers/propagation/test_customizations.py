"""The Ready condition of a customization reports whether its scripts work."""

import msgspec
from views import FakeView

from trimtab.api.kinds.interpreter import ResourceInterpreterCustomization
from trimtab.api.profile import UPSTREAM
from trimtab.controllers.propagation.customizations import SCRIPT_FAULT, customizations
from trimtab.interpret.operations import InterpreterFailure

GOOD = "function InterpretHealth(observedObj) return true end"


def customization(script: str = GOOD) -> ResourceInterpreterCustomization:
    raw = {
        "metadata": {"name": "ric", "resourceVersion": "3", "generation": 1},
        "spec": {
            "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {"healthInterpretation": {"luaScript": script}},
        },
    }
    return msgspec.convert(raw, ResourceInterpreterCustomization)


def test_loaded_scripts_are_ready_and_reported_once() -> None:
    (updated,) = customizations(customization(), FakeView())
    assert (updated.status.conditions[0].type, updated.status.conditions[0].status) == ("Ready", "True")
    assert list(customizations(updated, FakeView())) == []


def test_syntax_error_names_the_script() -> None:
    updated, event = customizations(customization("function ("), FakeView())
    assert updated.status.conditions[0].status == "False"
    assert event.type == "Warning"
    assert "healthInterpretation" in event.message


def test_runtime_failure_is_reported_until_script_is_replaced() -> None:
    view = FakeView()
    view.memory[SCRIPT_FAULT, ("ric", GOOD)] = InterpreterFailure("DeadlineExceeded", "InterpretHealth: took too long")
    updated, event = customizations(customization(), view)
    assert event.reason == "DeadlineExceeded"
    (repaired,) = customizations(updated.but(spec=customization(GOOD + " ").spec), view)
    assert repaired.status.conditions[0].status == "True"


def test_upstream_profile_reports_nothing() -> None:
    assert list(customizations(customization("function ("), FakeView(profile=UPSTREAM))) == []
