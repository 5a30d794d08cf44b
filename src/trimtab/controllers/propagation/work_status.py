"""A member's object -> what the Work reports of it: its status and whether it does well."""

from trimtab.api.kinds.work import ManifestStatus, ResourceIdentifier, Work
from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Note, View
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.operations import Operation, Uninterpretable

SOURCE = "work-status-controller"


def identify(ordinal: int, manifest: Raw) -> ResourceIdentifier:
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


def reflect(work: Work, identifier: ResourceIdentifier, seen: Raw, view: View) -> tuple[ManifestStatus, list[Note]]:
    """One object's status and health, with the notes that tell about it."""
    interpreter: Interpreter = view.part("interpreter")
    about = well_known.ref_of(work)
    thing = f"{identifier.kind}/{identifier.namespace}/{identifier.name}"
    notes = []
    try:
        status = interpreter.reflect(seen)
        notes.append(
            Note(about, "ReflectStatusSucceed", f"Reflect status for object({thing}) succeed.", SOURCE, routine=True)
        )
    except Uninterpretable as fault:
        status = None
        said = f"Reflect status for object({thing}) failed, err: {fault}."
        notes.append(Note(about, "ReflectStatusFailed", said, SOURCE, "Warning"))
    health = "Healthy"  # a kind nobody can judge is taken to do well
    if interpreter.interprets((seen["apiVersion"], seen["kind"]), Operation.HEALTH):
        try:
            health = interpreter.health(seen)
        except Uninterpretable as fault:
            health = "Unknown"
            said = f"Interpret health of object({thing}) failed, err: {fault}."
            notes.append(Note(about, "InterpretHealthFailed", said, SOURCE, "Warning"))
        else:
            said = f"Interpret health of object({thing}) as {health.lower()}."
            notes.append(Note(about, "InterpretHealthSucceed", said, SOURCE, routine=True))
    return ManifestStatus(identifier=identifier, status=status, health=health), notes
