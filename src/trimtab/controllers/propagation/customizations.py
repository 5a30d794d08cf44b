"""Reports in the Ready condition of a ResourceInterpreterCustomization whether its scripts load and run."""

from collections.abc import Iterator

import msgspec

from trimtab.api.kinds.interpreter import CustomizationStatus, ResourceInterpreterCustomization
from trimtab.api.value import Condition
from trimtab.controllers import well_known
from trimtab.controllers.conditions import with_condition
from trimtab.controllers.contract import Effect, RecordEvent, Topic, View, controller, spec_changed
from trimtab.interpret.lua.sandbox import check_syntax
from trimtab.interpret.operations import InterpreterFailure

SOURCE = "interpreter"
SCRIPT_FAULT: Topic[tuple[str, str], InterpreterFailure] = Topic("script fault")
"""Why a script failed the last time it ran, by the name of its customization and its text."""


@controller(ResourceInterpreterCustomization, writes=["status"], predicate=spec_changed)
def customizations(customization: ResourceInterpreterCustomization, view: View) -> Iterator[Effect]:
    """Syntax errors are reported immediately, runtime errors when they occur."""
    if not view.profile.always_write_own_fields:
        return
    ready = ready_condition(first_syntax_fault(customization) or last_script_fault(customization, view), view)
    status = CustomizationStatus(conditions=with_condition(customization.status.conditions, ready))
    if status == customization.status:
        return
    yield customization.but(status=status)
    if ready.status == "False":
        yield RecordEvent(well_known.ref_of(customization), ready.reason, ready.message, SOURCE, "Warning")


def scripts_of(customization: ResourceInterpreterCustomization) -> dict[str, str]:
    rules = msgspec.to_builtins(customization.spec.customizations)
    return {name: rule.get("luaScript") or "" for name, rule in rules.items()}


def last_script_fault(customization: ResourceInterpreterCustomization, view: View) -> InterpreterFailure | None:
    """The failure of a script that the customization still has."""
    faults = (view.recall(SCRIPT_FAULT, (customization.name, text)) for text in scripts_of(customization).values())
    return next((fault for fault in faults if fault is not None), None)


def first_syntax_fault(customization: ResourceInterpreterCustomization) -> InterpreterFailure | None:
    for name, script in scripts_of(customization).items():
        fault = check_syntax(script)
        if fault is not None:
            return InterpreterFailure(fault.reason, f"{name}: {fault.message}")
    return None


def ready_condition(fault: InterpreterFailure | None, view: View) -> Condition:
    return Condition(
        type="Ready",
        status="True" if fault is None else "False",
        last_transition_time=view.now.replace(microsecond=0),
        reason="ScriptsLoaded" if fault is None else fault.reason,
        message="Every script can be loaded, and none has failed." if fault is None else fault.message,
    )
