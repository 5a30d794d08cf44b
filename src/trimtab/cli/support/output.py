"""The output formats that reading commands share: `-o table|wide|name|json|yaml`."""

from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec
import yaml

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.value import Object

FORMATS = ("table", "wide", "name", "json", "yaml")


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `-o`, the same for every command that reads."""
    return click.option(
        "-o", "--output", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True, help="Output format."
    )(command)


def format_structured(value: Any, output: str) -> str:
    """A value as JSON or YAML, with fields in the order of their declaration."""
    encoded = msgspec.json.encode(value)
    if output == "json":
        return msgspec.json.format(encoded).decode()
    document = msgspec.json.decode(encoded)  # through JSON: times become texts
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)).rstrip("\n")


def format_objects(objects: Sequence[Object], output: str) -> str:
    """API objects as a List in JSON or YAML, or one `kind/name` per line."""
    if output == "name":
        return "\n".join(f"{kind_of(thing).name.lower()}/{thing.name}" for thing in objects)
    return format_structured(
        {"apiVersion": "v1", "kind": "List", "items": [to_wire(thing) for thing in objects]}, output
    )
