"""Interprets the status and health of a member's object for the status of its Work."""

from trimtab.api.kinds.work import ManifestStatus, ResourceIdentifier
from trimtab.api.value import Raw
from trimtab.controllers.contract import RecordEvent, Ref, View
from trimtab.interpret.operations import InterpreterError, Operation

SOURCE = "work-status-controller"


def resource_identifier(ordinal: int, manifest: Raw) -> ResourceIdentifier:
    group, _, version = manifest["apiVersion"].rpartition("/")
    metadata = manifest["metadata"]
    return ResourceIdentifier(
        ordinal=ordinal,
        group=group,
        version=version,
        kind=manifest["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
    )


def reflect_status(
    about: Ref, identifier: ResourceIdentifier, seen: Raw, view: View
) -> tuple[ManifestStatus, list[RecordEvent]]:
    """The status and health of one object, with the events about its Work that report the interpretation."""
    interpreter, records_routine = view.interpreter, view.profile.record_routine_events
    name = f"{identifier.kind}/{identifier.namespace}/{identifier.name}"
    events = []
    try:
        status = interpreter.reflect(seen)
    except InterpreterError as fault:
        status = None
        text = f"Reflect status for object({name}) failed, err: {fault}."
        events.append(RecordEvent(about, "ReflectStatusFailed", text, SOURCE, "Warning"))
    else:
        if records_routine:
            text = f"Reflect status for object({name}) succeed."
            events.append(RecordEvent(about, "ReflectStatusSucceed", text, SOURCE, routine=True))
    health = "Healthy"  # upstream reports kinds without a health interpretation as healthy
    if interpreter.interprets((seen["apiVersion"], seen["kind"]), Operation.HEALTH):
        try:
            health = interpreter.health(seen)
        except InterpreterError as fault:
            health = "Unknown"
            text = f"Interpret health of object({name}) failed, err: {fault}."
            events.append(RecordEvent(about, "InterpretHealthFailed", text, SOURCE, "Warning"))
        else:
            if records_routine:
                text = f"Interpret health of object({name}) as {health.lower()}."
                events.append(RecordEvent(about, "InterpretHealthSucceed", text, SOURCE, routine=True))
    return ManifestStatus(identifier=identifier, status=status, health=health), events
