"""Fields of a manifest that keep the member cluster's value: named by JSON paths, pointers or jq paths."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from trimtab.api.jsonpath import InvalidJSONPath, Location, find_locations
from trimtab.api.limits import MAX_JSON_PATH_LENGTH
from trimtab.api.value import Raw

_SELECT = re.compile(
    r"\[\]\s*+\|\s*+select\(\s*+(\.[^=!\s]++)\s*+(==|!=)\s*+(\"[^\"]*\"|-?\d+|true|false)\s*+\)\s*+\|\s*+(?=\.)"
)
_JQ_PATH = re.compile(r"""(\.[A-Za-z_][\w-]*|\.?\[(?:"[^"]*"|-?\d+|\*|\?\(@[^)]*\))\])+\Z""")


def jq_to_json_path(expression: str) -> str:
    """The JSON path of a jq path: names, indexes, `[]` and `select(.name == "x")` are supported."""
    if len(expression) > MAX_JSON_PATH_LENGTH:
        raise InvalidJSONPath(f"JQ expression error: it is longer than {MAX_JSON_PATH_LENGTH} characters")
    text = _SELECT.sub(lambda found: f"[?(@{found[1]}{found[2]}{found[3]})]", expression.strip())
    text = text.replace("[]", "[*]").replace(".[", "[")
    if not _JQ_PATH.match(text):
        raise InvalidJSONPath(
            f"JQ expression error in {expression!r}: only paths with names, indexes and select are supported"
        )
    return text


def pointer_locations(pointer: str, document: Any) -> Iterator[Location]:
    """The location that a JSON pointer names in the document, if it exists."""
    if not pointer.startswith("/"):
        raise InvalidJSONPath(f"JSON Pointer error in {pointer!r}: it must start with /")
    location: list[str | int] = []
    for part in pointer[1:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        key: str | int = int(name) if isinstance(document, list) and name.isdigit() else name
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return
        location.append(key)
    yield tuple(location)


def with_ignored_fields(manifest: Raw, observed: Raw, rule: Raw) -> Raw:
    """The manifest with the fields that the rule names as they are in `observed`; raises `InvalidJSONPath`."""
    paths: Iterable[str] = [*(rule.get("jsonPaths") or ()), *map(jq_to_json_path, rule.get("jqPathExpressions") or ())]
    found = [location for path in paths for location in find_locations(manifest, path)]
    found += [
        location for pointer in rule.get("jsonPointers") or () for location in pointer_locations(pointer, manifest)
    ]
    for location in found:
        manifest = _copy_value_at(manifest, observed, location)
    return manifest


def _copy_value_at(desired: Any, observed: Any, location: Location) -> Any:
    """A copy of `desired` with the value of `observed` at the location; without it, where `observed` has none."""
    if not location:
        return observed
    key, rest = location[0], location[1:]
    if isinstance(desired, list) and isinstance(key, int):
        other = _matching_item(desired[key], observed, key)
        return (
            desired
            if other is None
            else [*desired[:key], _copy_value_at(desired[key], other, rest), *desired[key + 1 :]]
        )
    if not isinstance(desired, dict) or not isinstance(observed, dict):
        return desired
    if key in observed:
        return {**desired, key: _copy_value_at(desired[key], observed[key], rest)}
    return desired if rest else {name: value for name, value in desired.items() if name != key}


def _matching_item(item: Any, observed: Any, index: int) -> Any:
    """The corresponding item of the other list: by name where it has one, else by index."""
    if not isinstance(observed, list):
        return None
    if isinstance(item, dict) and "name" in item:
        return next((one for one in observed if isinstance(one, dict) and one.get("name") == item["name"]), None)
    return observed[index] if index < len(observed) else None
