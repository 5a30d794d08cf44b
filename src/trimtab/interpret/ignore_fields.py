"""Fields of a manifest that are left as they are in the member: named by JSON paths, pointers or jq paths."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from trimtab.api.jsonpath import BadPath, Place, places
from trimtab.api.value import Raw

_SELECT = re.compile(r"\[\]\s*\|\s*select\(\s*(\.[^=!]+?)\s*(==|!=)\s*(\"[^\"]*\"|-?\d+|true|false)\s*\)\s*\|\s*(?=\.)")
_JQ_PATH = re.compile(r"""(\.[A-Za-z_][\w-]*|\.?\[(?:"[^"]*"|-?\d+|\*|\?\(@[^)]*\))\])+\Z""")


def from_jq(expression: str) -> str:
    """The JSON path that a jq path means: names, indexes, `[]` and `select(.name == "x")` are understood."""
    text = _SELECT.sub(lambda found: f"[?(@{found[1]}{found[2]}{found[3]})]", expression.strip())
    text = text.replace("[]", "[*]").replace(".[", "[")
    if not _JQ_PATH.match(text):
        raise BadPath(
            f"JQ expression error in {expression!r}: only paths with names, indexes and select are understood"
        )
    return text


def from_pointer(pointer: str, document: Any) -> Iterator[Place]:
    """Where a JSON pointer leads in the document, if anywhere."""
    if not pointer.startswith("/"):
        raise BadPath(f"JSON Pointer error in {pointer!r}: it begins with /")
    place: list[str | int] = []
    for part in pointer[1:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        key: str | int = int(name) if isinstance(document, list) and name.isdigit() else name
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return
        place.append(key)
    yield tuple(place)


def spared(manifest: Raw, seen: Raw, rule: Raw) -> Raw:
    """The manifest with the fields that the rule names as they are in `seen`; raises BadPath."""
    paths: Iterable[str] = [*(rule.get("jsonPaths") or ()), *map(from_jq, rule.get("jqPathExpressions") or ())]
    found = [place for path in paths for place in places(manifest, path)]
    found += [place for pointer in rule.get("jsonPointers") or () for place in from_pointer(pointer, manifest)]
    for place in found:
        manifest = _taken_over(manifest, seen, place)
    return manifest


def _taken_over(mine: Any, theirs: Any, place: Place) -> Any:
    """A copy of `mine` that has at the place what `theirs` has; nothing, where `theirs` has nothing."""
    if not place:
        return theirs
    key, rest = place[0], place[1:]
    if isinstance(mine, list) and isinstance(key, int):
        other = _counterpart(mine[key], theirs, key)
        return mine if other is None else [*mine[:key], _taken_over(mine[key], other, rest), *mine[key + 1 :]]
    if not isinstance(mine, dict) or not isinstance(theirs, dict):
        return mine
    if key in theirs:
        return {**mine, key: _taken_over(mine[key], theirs[key], rest)}
    return mine if rest else {name: value for name, value in mine.items() if name != key}


def _counterpart(item: Any, theirs: Any, index: int) -> Any:
    """The same entry of the other list: by its name where it has one, else by its number."""
    if not isinstance(theirs, list):
        return None
    if isinstance(item, dict) and "name" in item:
        return next((one for one in theirs if isinstance(one, dict) and one.get("name") == item["name"]), None)
    return theirs[index] if index < len(theirs) else None
