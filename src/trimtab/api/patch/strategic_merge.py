"""Strategic merge: lists with a merge key merge item by item, and `$` directives say what a plain merge cannot."""

from collections.abc import Sequence
from typing import Any

from trimtab.api.patch.json_patch import same
from trimtab.api.patch.merge_schema import ANYTHING, Shape
from trimtab.api.value import Raw
from trimtab.errors import BadRequest

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def _refuse(text: str) -> BadRequest:
    return BadRequest(text)


def _directive(patch: Raw) -> str:
    found = patch.get(_PATCH, "")
    if found not in ("", "replace", "delete", "merge"):
        raise _refuse(f"unknown patch type found: {found} in {_go(patch)}")
    return str(found)


def _go(value: Any) -> str:
    """A value as Go prints it with %v."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)


def _plain(value: Any) -> Any:
    """A patch value that meets nothing to merge with: directives fall away, nulls delete nothing."""
    if isinstance(value, dict):
        if value.get(_PATCH) == "delete":
            return {}
        return {key: _plain(item) for key, item in value.items() if not _is_directive(key) and item is not None}
    if isinstance(value, list):
        return [_plain(item) for item in value if not (isinstance(item, dict) and _PATCH in item)]
    return value


def _is_directive(key: str) -> bool:
    return key in (_PATCH, _RETAIN) or key.startswith((_ORDER, _DELETE))


def _merge_map(original: Raw, patch: Raw, shape: Shape) -> Raw:
    directive = _directive(patch)
    if directive == "delete":
        return {}
    if directive == "replace":
        return {key: _plain(value) for key, value in patch.items() if key != _PATCH}
    merged = _retained(original, patch)
    for key, value in patch.items():
        if not _is_directive(key):
            _merge_member(merged, key, value, patch, shape)
    _settle_lists(merged, original, patch, shape)
    return merged


def _retained(original: Raw, patch: Raw) -> Raw:
    kept = patch.get(_RETAIN)
    if kept is None:
        return dict(original)
    if not isinstance(kept, list) or not all(isinstance(key, str) for key in kept):
        raise _refuse(f"bad patch format for $retainKeys directive: {_go(kept)}")
    missing = [key for key in patch if not _is_directive(key) and patch[key] is not None and key not in kept]
    if missing:
        raise _refuse("$retainKeys directive must contain all the present fields in the patch")
    return {key: value for key, value in original.items() if key in kept}


def _merge_member(merged: Raw, key: str, value: Any, patch: Raw, shape: Shape) -> None:
    if value is None:
        merged.pop(key, None)
        return
    before = merged.get(key)
    inner = shape.member(key) or ANYTHING
    if isinstance(value, dict) and isinstance(before, dict) and "replace" not in inner.patch_strategy:
        merged[key] = _merge_map(before, value, inner)
    elif isinstance(value, list) and "merge" in inner.patch_strategy:
        merged[key] = _merge_list(before if isinstance(before, list) else [], value, inner)
    else:
        merged[key] = _plain(value)


def _key_of(item: Any, shape: Shape) -> Any:
    if not isinstance(item, dict) or shape.patch_key not in item:
        raise _refuse(f"map: {_go(item)} does not contain declared merge key: {shape.patch_key}")
    return item[shape.patch_key]


def _merge_list(original: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    if not shape.patch_key:
        merged = [item for index, item in enumerate([*original, *patch]) if item not in [*original, *patch][:index]]
        return _ordered(merged, patch, original, shape)
    items = list(original)
    replace = False
    changes = []
    for change in patch:
        if not isinstance(change, dict):
            raise _refuse(f"expected map[string]interface{{}} for list item, got {_go(change)}")
        directive = _directive(change)
        if directive == "replace":
            replace = True
        elif directive == "delete":
            doomed = _key_of(change, shape)
            items = [item for item in items if not same(_key_of(item, shape), doomed)]
        else:
            changes.append(change)
    if replace:
        return [_plain(change) for change in changes]
    return _ordered(_merge_items(list(items), changes, shape), changes, items, shape)


def _merge_items(items: list[Any], changes: Sequence[Raw], shape: Shape) -> list[Any]:
    for change in changes:
        wanted = _key_of(change, shape)
        at = next((i for i, item in enumerate(items) if same(_key_of(item, shape), wanted)), None)
        if at is None:
            items.append(_plain(change))
        else:
            items[at] = _merge_map(items[at], change, shape.item)
    return items


def _settle_lists(merged: Raw, original: Raw, patch: Raw, shape: Shape) -> None:
    """What `$deleteFromPrimitiveList` and `$setElementOrder` say about the lists beside them."""
    for key, value in patch.items():
        if key.startswith(_DELETE) and isinstance(value, list):
            name = key.removeprefix(_DELETE)
            if isinstance(merged.get(name), list):
                merged[name] = [item for item in merged[name] if item not in value]
                if not merged[name]:
                    del merged[name]
    for key, value in patch.items():
        if key.startswith(_ORDER) and isinstance(value, list):
            name = key.removeprefix(_ORDER)
            _check_order(patch.get(name), value, shape.member(name) or ANYTHING)
            if isinstance(merged.get(name), list):
                inner = shape.member(name) or ANYTHING
                before = _order_before(original.get(name), patch.get(name), inner)
                merged[name] = _ordered(merged[name], value, before, inner)


def _check_order(items: Any, order: list[Any], shape: Shape) -> None:
    """What a patch changes must stand in its own order, each item named."""
    if not isinstance(items, list):
        return
    wanted = [_identity(item, shape) for item in items if not (isinstance(item, dict) and _PATCH in item)]
    named = iter([_identity(item, shape) for item in order])
    if not all(item in named for item in wanted):
        raise _refuse(f"The order in patch list:\n{_go(items)}\n doesn't match $setElementOrder list:\n{_go(order)}\n")


def _order_before(live: Any, patch: Any, shape: Shape) -> list[Any]:
    """The live order, as the other system sees it: new items take the places that deleted ones left at the end."""
    before = live if isinstance(live, list) else []
    changes = [item for item in patch if isinstance(item, dict)] if isinstance(patch, list) else []
    doomed = [_identity(item, shape) for item in changes if item.get(_PATCH) == "delete"]
    kept = [item for item in before if _identity(item, shape) not in doomed]
    known = [_identity(item, shape) for item in kept]
    new = [item for item in changes if _PATCH not in item and _identity(item, shape) not in known]
    return [*kept, *new][: len(before)]


def _identity(item: Any, shape: Shape) -> Any:
    return item.get(shape.patch_key) if isinstance(item, dict) and shape.patch_key else item


def _ordered(items: list[Any], order: list[Any], before: list[Any], shape: Shape) -> list[Any]:
    """Items that `order` names come in that order; each of the others stays before those it preceded in `before`."""
    ranks = [_identity(item, shape) for item in order]
    places = [_identity(item, shape) for item in before]
    named = [item for item in items if _identity(item, shape) in ranks]
    named.sort(key=lambda item: ranks.index(_identity(item, shape)))
    others = [item for item in items if _identity(item, shape) not in ranks]
    result: list[Any] = []
    for item in named:
        mine = _identity(item, shape)
        while others and mine in places and _precedes(places, _identity(others[0], shape), mine):
            result.append(others.pop(0))
        result.append(item)
    return result + others


def _precedes(places: list[Any], one: Any, other: Any) -> bool:
    return one in places and places.index(one) < places.index(other)


def apply_strategic_patch(document: Raw, patch: Any, shape: Shape) -> Raw:
    """`document` with `patch` merged as the lists of `shape` ask for; the document itself stays as it was."""
    if not isinstance(patch, dict):
        raise BadRequest("error decoding patch: invalid JSON patch")
    return _merge_map(document, patch, shape)
