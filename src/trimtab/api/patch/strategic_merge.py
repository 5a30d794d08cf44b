"""Strategic merge patch: lists with a merge key merge by item; `$` directives replace, delete, retain and order."""

from collections.abc import Sequence
from typing import Any

import orjson

from trimtab.api.patch.go_values import format_go_value
from trimtab.api.patch.merge_schema import UNKNOWN_SCHEMA, MergeSchema
from trimtab.api.value import Raw
from trimtab.errors import BadRequest

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_SET_ELEMENT_ORDER = "$setElementOrder/"
_DELETE_FROM_LIST = "$deleteFromPrimitiveList/"


def _patch_directive(patch: Raw) -> str:
    found = patch.get(_PATCH, "")
    if found not in ("", "replace", "delete", "merge"):
        raise BadRequest(f"unknown patch type found: {found} in {format_go_value(patch)}")
    return str(found)


def _without_directives(value: Any) -> Any:
    """A patch value with nothing to merge into: directives are dropped, nulls delete nothing."""
    if isinstance(value, dict):
        if value.get(_PATCH) == "delete":
            return {}
        return {
            key: _without_directives(item) for key, item in value.items() if not _is_directive(key) and item is not None
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not (isinstance(item, dict) and _PATCH in item)]
    return value


def _is_directive(key: str) -> bool:
    return key in (_PATCH, _RETAIN_KEYS) or key.startswith((_SET_ELEMENT_ORDER, _DELETE_FROM_LIST))


def _merge_map(original: Raw, patch: Raw, schema: MergeSchema) -> Raw:
    directive = _patch_directive(patch)
    if directive == "delete":
        return {}
    if directive == "replace":
        return {key: _without_directives(value) for key, value in patch.items() if key != _PATCH}
    merged = _apply_retain_keys(original, patch)
    for key, value in patch.items():
        if not _is_directive(key):
            _merge_member(merged, key, value, patch, schema)
    _apply_list_directives(merged, original, patch, schema)
    return merged


def _apply_retain_keys(original: Raw, patch: Raw) -> Raw:
    kept = patch.get(_RETAIN_KEYS)
    if kept is None:
        return dict(original)
    if not isinstance(kept, list) or not all(isinstance(key, str) for key in kept):
        raise BadRequest(f"bad patch format for $retainKeys directive: {format_go_value(kept)}")
    missing = [key for key in patch if not _is_directive(key) and patch[key] is not None and key not in kept]
    if missing:
        raise BadRequest("$retainKeys directive must contain all the present fields in the patch")
    return {key: value for key, value in original.items() if key in kept}


def _merge_member(merged: Raw, key: str, value: Any, patch: Raw, schema: MergeSchema) -> None:
    if value is None:
        merged.pop(key, None)
        return
    before = merged.get(key)
    inner = schema.member(key) or UNKNOWN_SCHEMA
    if isinstance(value, dict) and isinstance(before, dict) and "replace" not in inner.patch_strategy:
        merged[key] = _merge_map(before, value, inner)
    elif isinstance(value, list) and "merge" in inner.patch_strategy:
        merged[key] = _merge_list(before if isinstance(before, list) else [], value, inner)
    else:
        merged[key] = _without_directives(value)


def _merge_key_value(item: Any, schema: MergeSchema) -> Any:
    if not isinstance(item, dict) or schema.patch_key not in item:
        raise BadRequest(f"map: {format_go_value(item)} does not contain declared merge key: {schema.patch_key}")
    return item[schema.patch_key]


def _merge_list(original: list[Any], patch: list[Any], schema: MergeSchema) -> list[Any]:
    if not schema.patch_key:
        return _sort_items(_without_repetitions([*original, *patch]), patch, original, schema)
    replace = False
    changes = []
    deleted = set()
    for change in patch:
        if not isinstance(change, dict):
            raise BadRequest(f"expected map[string]interface{{}} for list item, got {format_go_value(change)}")
        directive = _patch_directive(change)
        if directive == "replace":
            replace = True
        elif directive == "delete":
            deleted.add(_hashable(_merge_key_value(change, schema)))
        else:
            changes.append(change)
    if replace:
        return [_without_directives(change) for change in changes]
    items = [item for item in original if not deleted or _hashable(_merge_key_value(item, schema)) not in deleted]
    return _sort_items(_merge_items(list(items), changes, schema), changes, items, schema)


def _merge_items(items: list[Any], changes: Sequence[Raw], schema: MergeSchema) -> list[Any]:
    places: dict[Any, int] = {}
    for index, item in enumerate(items if changes else ()):
        places.setdefault(_hashable(_merge_key_value(item, schema)), index)
    for change in changes:
        at = places.setdefault(_hashable(_merge_key_value(change, schema)), len(items))
        if at == len(items):
            items.append(_without_directives(change))
        else:
            items[at] = _merge_map(items[at], change, schema.item)
    return items


def _apply_list_directives(merged: Raw, original: Raw, patch: Raw, schema: MergeSchema) -> None:
    """Apply `$deleteFromPrimitiveList` and `$setElementOrder` to the lists that they name."""
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM_LIST) and isinstance(value, list):
            name = key.removeprefix(_DELETE_FROM_LIST)
            if isinstance(merged.get(name), list):
                removed = set(map(_hashable, value))
                merged[name] = [item for item in merged[name] if _hashable(item) not in removed]
                if not merged[name]:
                    del merged[name]
    for key, value in patch.items():
        if key.startswith(_SET_ELEMENT_ORDER) and isinstance(value, list):
            name = key.removeprefix(_SET_ELEMENT_ORDER)
            _check_order(patch.get(name), value, schema.member(name) or UNKNOWN_SCHEMA)
            if isinstance(merged.get(name), list):
                inner = schema.member(name) or UNKNOWN_SCHEMA
                before = _live_order(original.get(name), patch.get(name), inner)
                merged[name] = _sort_items(merged[name], value, before, inner)


def _check_order(items: Any, order: list[Any], schema: MergeSchema) -> None:
    """The changed items must be in the order of `$setElementOrder`, and each must be in it."""
    if not isinstance(items, list):
        return
    wanted = [_item_identity(item, schema) for item in items if not (isinstance(item, dict) and _PATCH in item)]
    named = iter([_item_identity(item, schema) for item in order])
    if not all(item in named for item in wanted):
        raise BadRequest(
            f"The order in patch list:\n{format_go_value(items)}\n "
            f"doesn't match $setElementOrder list:\n{format_go_value(order)}\n"
        )


def _live_order(live: Any, patch: Any, schema: MergeSchema) -> list[Any]:
    """The live order as kube-apiserver computes it: new items take the positions of deleted ones at the end."""
    before = live if isinstance(live, list) else []
    changes = [item for item in patch if isinstance(item, dict)] if isinstance(patch, list) else []
    deleted = {_item_identity(item, schema) for item in changes if item.get(_PATCH) == "delete"}
    kept = [item for item in before if _item_identity(item, schema) not in deleted]
    known = {_item_identity(item, schema) for item in kept}
    new = [item for item in changes if _PATCH not in item and _item_identity(item, schema) not in known]
    return [*kept, *new][: len(before)]


def _item_identity(item: Any, schema: MergeSchema) -> Any:
    """What makes two items the same, in a form that can be looked up."""
    return _hashable(item.get(schema.patch_key) if isinstance(item, dict) and schema.patch_key else item)


def _hashable(value: Any) -> Any:
    """A form in which values that are equal as JSON are equal: true is not 1, but 1 is 1.0."""
    if isinstance(value, bool):
        return (value,)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) if isinstance(value, dict | list) else value


def _without_repetitions(items: list[Any]) -> list[Any]:
    first: dict[Any, Any] = {}
    for item in items:
        first.setdefault(_hashable(item), item)
    return list(first.values())


def _sort_items(items: list[Any], order: list[Any], before: list[Any], schema: MergeSchema) -> list[Any]:
    """Items in `order` come in that order; each of the others stays before the items that it preceded in `before`."""
    ranks = _first_positions(order, schema)
    positions = _first_positions(before, schema)
    named = [item for item in items if _item_identity(item, schema) in ranks]
    named.sort(key=lambda item: ranks[_item_identity(item, schema)])
    others = [item for item in items if _item_identity(item, schema) not in ranks]
    result: list[Any] = []
    taken = 0
    for item in named:
        place = positions.get(_item_identity(item, schema), -1)
        while taken < len(others) and 0 <= positions.get(_item_identity(others[taken], schema), place) < place:
            result.append(others[taken])
            taken += 1
        result.append(item)
    return result + others[taken:]


def _first_positions(items: list[Any], schema: MergeSchema) -> dict[Any, int]:
    positions: dict[Any, int] = {}
    for index, item in enumerate(items):
        positions.setdefault(_item_identity(item, schema), index)
    return positions


def apply_strategic_patch(document: Raw, patch: Any, schema: MergeSchema) -> Raw:
    """A copy of `document` with `patch` merged by the merge keys of `schema`."""
    if not isinstance(patch, dict):
        raise BadRequest("error decoding patch: invalid JSON patch")
    return _merge_map(document, patch, schema)
