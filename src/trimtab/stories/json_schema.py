"""The JSON Schema of story files, for completion and checks in editors."""

import types
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from trimtab.api.profile import PROFILES
from trimtab.api.value import Field, Raw
from trimtab.controllers.settings import SETTINGS
from trimtab.simulate.fleet import FleetPlan
from trimtab.stories.steps import APP_FAILURES
from trimtab.stories.story import Expectation, Story

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DURATION = {
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"}],
    "description": "Seconds, or a text such as 90s or 1h30m.",
}
NAMES_OF_STEPS = {(Expectation, "from"), (Expectation, "until")}
"""Fields that accept the name of a step as well as a duration."""
NAMED_FLEETS = ("default", "flows")


def story_schema() -> Raw:
    """The schema of one story file."""
    (reference, fleet), definitions = msgspec.json.schema_components((Story, FleetPlan), ref_template="#/$defs/{name}")
    for type_ in struct_types(Story) | struct_types(FleetPlan):
        describe_fields(type_, definitions[type_.__name__])
    story = definitions["Story"]["properties"]
    story["profile"]["enum"] = sorted(PROFILES)
    story["fleet"] = {
        "description": "The simulated clusters: a name, or a description as for `trimtab up --fleet`.",
        "anyOf": [{"enum": list(NAMED_FLEETS)}, fleet],
    }
    story["settings"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"description": setting.text} for name, setting in SETTINGS.items()},
    }
    definitions["FailureAction"]["properties"]["how"]["enum"] = list(APP_FAILURES)
    schema = {"$schema": DIALECT, "title": "Trimtab story", **reference, "$defs": definitions}
    return msgspec.json.decode(msgspec.json.encode(schema), type=dict)


def struct_types(type_: Any) -> set[type[msgspec.Struct]]:
    """The type and all types of its fields."""
    found: set[type[msgspec.Struct]] = set()
    waiting = [type_]
    while waiting:
        hint = waiting.pop()
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            if hint not in found:
                found.add(hint)
                waiting += get_type_hints(hint, include_extras=True).values()
        else:
            waiting += get_args(hint)
    return found


def describe_fields(type_: type[msgspec.Struct], schema: Raw) -> None:
    """Add the texts of the fields, and the pattern of durations."""
    hints = get_type_hints(type_, include_extras=True)
    for field in msgspec.structs.fields(type_):
        found = schema["properties"][field.encode_name]
        hint = hints[field.name]
        if is_duration(type_, hint) and (type_, field.encode_name) not in NAMES_OF_STEPS:
            found.pop("type", None)
            found.update(DURATION)
        for note in hint.__metadata__ if get_origin(hint) is Annotated else ():
            if isinstance(note, Field) and note.text:
                found["description"] = note.text


def is_duration(type_: type[msgspec.Struct], hint: Any) -> bool:
    """Whether a field of a story is a duration; in descriptions of fleets the same union is a quantity."""
    if type_.__module__ != Story.__module__:
        return False
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(bare) not in (Union, types.UnionType):
        return False
    return {str, int, float} <= set(get_args(bare))
