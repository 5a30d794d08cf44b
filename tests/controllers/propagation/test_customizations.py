"""The author of a script finds out whether it works."""

import msgspec
from views import FakeView

from trimtab.api.kinds.interpreter import ResourceInterpreterCustomization
from trimtab.api.profile import UPSTREAM
from trimtab.controllers.propagation.customizations import customizations
from trimtab.interpret.operations import Fault

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


def test_scripts_that_load_are_ready_and_said_once() -> None:
    (said,) = customizations(customization(), FakeView())
    assert (said.status.conditions[0].type, said.status.conditions[0].status) == ("Ready", "True")
    assert list(customizations(said, FakeView())) == []


def test_a_script_that_cannot_be_read_is_named() -> None:
    said, note = customizations(customization("function ("), FakeView())
    assert said.status.conditions[0].status == "False"
    assert note.type == "Warning"
    assert "healthInterpretation" in note.message


def test_a_script_that_failed_when_it_ran_is_told_until_it_is_replaced() -> None:
    view = FakeView()
    view.memory["script fault", "ric"] = (GOOD, Fault("DeadlineExceeded", "InterpretHealth: took too long"))
    said, note = customizations(customization(), view)
    assert note.reason == "DeadlineExceeded"
    (mended,) = customizations(said.but(spec=customization(GOOD + " ").spec), view)
    assert mended.status.conditions[0].status == "True"


def test_upstream_says_nothing() -> None:
    assert list(customizations(customization("function ("), FakeView(profile=UPSTREAM))) == []
