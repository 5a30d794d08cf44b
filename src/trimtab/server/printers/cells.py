"""Column headers and cell texts that the table printers of built-in kinds share."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from trimtab.api.paths import value_at
from trimtab.api.value import Raw

NONE = "<none>"
UNKNOWN = "<unknown>"


class ColumnHeader(NamedTuple):
    """The name, type, format and priority of a table column; priority 1 shows it only in wide output."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0


def format_duration(elapsed: timedelta) -> str:
    """A duration in at most two units, as Kubernetes' `HumanDuration` formats it."""
    seconds = int(elapsed.total_seconds())
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    years = days // 365
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    if years < 8:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"


def format_age(moment: Any, now: datetime) -> str:
    if not isinstance(moment, str) or not moment:
        return UNKNOWN
    try:
        return format_duration(now - datetime.fromisoformat(moment))
    except (ValueError, TypeError):
        return "<invalid>"


def object_name(obj: Raw) -> str:
    return str(obj["metadata"]["name"])


def object_age(obj: Raw, now: datetime) -> str:
    return format_age(obj["metadata"].get("creationTimestamp"), now)


def int_at(obj: Raw, *path: str) -> int:
    return int(value_at(obj, *path) or 0)


def format_selector(selector: Raw | None) -> str:
    """A label selector in the syntax of `kubectl get -l`."""
    if selector is None:
        return NONE
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    words = {"In": "in", "NotIn": "notin"}
    for rule in sorted(selector.get("matchExpressions") or (), key=lambda rule: str(rule["key"])):
        key, operator = rule["key"], rule["operator"]
        if operator in words:
            terms.append(f"{key} {words[operator]} ({','.join(sorted(rule.get('values') or ()))})")
        else:
            terms.append(key if operator == "Exists" else f"!{key}")
    return ",".join(terms) or NONE


def format_labels(labels: Raw | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def container_columns(spec: Raw | None) -> tuple[str, str]:
    """The names and the images of the containers in a pod spec."""
    containers = (spec or {}).get("containers") or []
    return ",".join(c.get("name", "") for c in containers), ",".join(c.get("image", "") for c in containers)


def parse_headers(text: str) -> tuple[ColumnHeader, ...]:
    """Headers from a shorthand, separated by `|`: `*` wide output only, `#` integer, `?` boolean, `@` date.

    The first column has the format `name` unless it ends with `-`; a later one has it if it is called `Name`.
    """
    headers = []
    types = {"#": "integer", "?": "boolean", "@": "date"}
    for index, word in enumerate(text.split("|")):
        name = word.strip("*#?@-")
        kind = next((types[flag] for flag in word if flag in types), "string")
        has_name_format = not word.endswith("-") if index == 0 else name == "Name"
        headers.append(ColumnHeader(name, kind, "name" if has_name_format else "", 1 if word.endswith("*") else 0))
    return tuple(headers)


CellFunction = Callable[[Raw, datetime], list[Any]]


class ColumnSet(NamedTuple):
    """The columns of one kind and the function that fills their cells."""

    headers: tuple[ColumnHeader, ...]
    cells: CellFunction
