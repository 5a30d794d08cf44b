"""Server-side apply: a manager states what it wants; what it owns changes, what others own is a conflict."""

from collections.abc import Iterator, Sequence
from typing import Any

from trimtab.api.patch.field_ownership import (
    LEAF,
    FieldSet,
    applied,
    compare,
    intersection,
    is_member,
    item_element,
    items_by_element,
    paths,
    union,
)
from trimtab.api.patch.managed_fields import (
    Manager,
    Owned,
    Owners,
    read_owners,
    taken_from,
    trackable,
    with_owners,
)
from trimtab.api.patch.merge_schema import ANYTHING, Form, Shape
from trimtab.api.value import Raw
from trimtab.errors import BadRequest, Cause, Conflict, Unclassified

_BEFORE = "before-first-apply"


def _go_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return {str: "string", int: "int64", float: "float64"}.get(type(value), "<nil>")


def _go_value(value: Any) -> str:
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go_value(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)


def _misfits(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """What in an applied configuration does not fit the schema."""
    if value is None:
        return
    if shape.form is Form.SCALAR:
        if text := _scalar_misfit(value, shape):
            yield f"{path}: {text}"
    elif shape.form is Form.ANY:
        return
    elif shape.type == "array":
        yield from _list_misfits(value, shape, path)
    elif not isinstance(value, dict):
        yield f"{path}: expected map, got &{{{_go_value(value)}}}"
    else:
        for key, item in value.items():
            inner = shape.member(key)
            if inner is None:
                yield f"{path}.{key}: field not declared in schema"
            else:
                yield from _misfits(item, inner, f"{path}.{key}")


def _scalar_misfit(value: Any, shape: Shape) -> str:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if shape.type in ("integer", "number") and not numeric:
        return f"expected numeric (int or float), got {_go_name(value)}"
    if shape.type == "string" and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{_go_value(value)}}}"
    if shape.type == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got &{{{_go_value(value)}}}"
    if not shape.type and isinstance(value, dict | list):
        return f"expected any scalar, got &{{{_go_value(value)}}}"
    return ""


def _list_misfits(value: Any, shape: Shape, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: expected list, got &{{{_go_value(value)}}}"
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        if shape.form is Form.ATOMIC:
            yield from _misfits(item, shape.item, f"{path}[{index}]")
            continue
        element = item_element(item, shape)
        if element is None:
            missing = next((k for k in shape.keys if not isinstance(item, dict) or k not in item), "")
            yield (
                f"{path}: element {index}: associative list with keys has an element that omits key field "
                f'"{missing}" (and doesn\'t have default value)'
            )
            continue
        where = next(paths({element: {}}))
        if element in seen:
            yield f"{path}: duplicate entries for key {where}"
        seen.add(element)
        yield from _misfits(item, shape.item, f"{path}{where}")


def _check(config: Raw, shape: Shape, api_version: str, kind: str) -> None:
    metadata = config.get("metadata") or {}
    if isinstance(metadata, dict) and metadata.get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil")
    said_version, said_kind = config.get("apiVersion", ""), config.get("kind", "")
    if (said_version, said_kind) != (api_version, kind):
        version = said_version if "/" in str(said_version) else f"/{said_version}"
        raise BadRequest(f"invalid object type: {version}, Kind={said_kind}")
    found = list(_misfits(config, shape, ""))
    if found:
        text = found[0] if len(found) == 1 else "errors:\n  " + "\n  ".join(found)
        where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}" if isinstance(metadata, dict) else "/"
        version = api_version if "/" in api_version else f"/{api_version}"
        raise Unclassified(f"failed to create typed patch object ({where}; {version}, Kind={kind}): {text}")


def merge(live: Any, config: Any, shape: Shape) -> Any:
    """`config` laid over `live`: maps by member, keyed lists and sets by item, everything else replaced."""
    if isinstance(live, dict) and isinstance(config, dict) and shape.form in (Form.MAP, Form.ANY):
        merged = dict(live)
        for key, value in config.items():
            merged[key] = merge(live[key], value, shape.member(key) or ANYTHING) if key in live else value
        return merged
    if isinstance(live, list) and isinstance(config, list) and shape.form in (Form.KEYED, Form.SET):
        return _merge_items(live, config, shape)
    return config


def _merge_items(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    """Items in the order of the configuration; those it does not know keep their place among the shared ones."""
    before, wanted = items_by_element(live, shape), items_by_element(config, shape)
    merged: list[Any] = []
    for element in _merged_order(list(before), list(wanted)):
        if element in before and element in wanted:
            merged.append(merge(before[element], wanted[element], shape.item))
        else:
            merged.append(wanted[element] if element in wanted else before[element])
    return merged


def _merged_order(live: list[str], config: list[str]) -> list[str]:
    """Both lists in one, each element once: the configuration's own order stands, live-only elements slip in between."""
    shared = [element for element in config if element in live]
    merged: list[str] = []
    done: set[str] = set()
    at = 0
    for element in config:
        following = next((other for other in shared if other not in done), None)
        while at < len(live) and live[at] != element:
            if live[at] not in config:
                merged.append(live[at])
            elif live[at] not in done and live[at] == following:
                break  # a shared element waits until the configuration comes to it
            at += 1
        merged.append(element)
        done.add(element)
    return merged + [element for element in live[at:] if element not in config]


def _keeps(kept: FieldSet | None, *, declared: bool) -> bool:
    """Whether someone owns this place; a declared field counts as owned when anything in it is."""
    return kept is not None and (declared or is_member(kept))


def prune(value: Any, shape: Shape, last: FieldSet, kept: FieldSet) -> Any:
    """`value` without what was in `last` and is in nobody's set any more."""
    if isinstance(value, dict):
        return _prune_map(value, shape, last, kept)
    if isinstance(value, list) and shape.form in (Form.KEYED, Form.SET):
        items = []
        for item in value:
            element = item_element(item, shape) or ""
            if element not in last:
                items.append(item)
            elif _keeps(kept.get(element), declared=False) or not is_member(last[element]):
                items.append(prune(item, shape.item, last[element], kept.get(element, {})))
        return items
    return value


def _prune_map(value: Raw, shape: Shape, last: FieldSet, kept: FieldSet) -> Raw:
    members: Raw = {}
    for key, item in value.items():
        element = f"f:{key}"
        declared = key in shape.fields
        if element not in last:
            members[key] = item
        elif _keeps(kept.get(element), declared=declared) or not (declared or is_member(last[element])):
            inner = shape.member(key) or ANYTHING
            members[key] = prune(item, inner, last[element], kept.get(element) or {})
    return members


def _shown(manager: Manager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    return f"{text} using {manager.api_version}" if manager.operation == "Update" else text


def _refuse_conflicts(conflicts: dict[Manager, FieldSet]) -> None:
    found = [(manager, path) for manager in sorted(conflicts) for path in paths(conflicts[manager])]
    causes = [Cause("FieldManagerConflict", f"conflict with {_shown(manager)}", path) for manager, path in found]
    if len(found) == 1:
        raise Conflict(f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}", causes=causes)
    lines: list[str] = []
    for manager in sorted(conflicts):
        lines.append(f"conflicts with {_shown(manager)}:")
        lines += [f"- {path}" for path in paths(conflicts[manager])]
    raise Conflict(f"Apply failed with {len(found)} conflicts: " + "\n".join(lines), causes=causes)


def _settle(owners: Owners, live: Raw, made: Raw, shape: Shape, manager: Manager, *, force: bool) -> Owners:
    changes = compare(live, made, shape)
    changed = union(changes.modified, changes.added)
    if not force and changed:
        conflicts = {
            other: clash
            for other, owned in owners.items()
            if other != manager and (clash := intersection(owned.fields, changed))
        }
        if conflicts:
            _refuse_conflicts(conflicts)
    return taken_from(owners, changes, manager)


def apply(
    live: Raw | None,
    config: Raw,
    shape: Shape,
    manager: str,
    now: str,
    *,
    api_version: str,
    kind: str,
    force: bool = False,
    subresource: str = "",
    only: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Raw:
    """The object that follows when `manager` applies `config` to `live` (None: there is none yet).

    The result carries its managedFields and still has to be read, defaulted and validated. When nothing changes, it
    equals `live`. `only` and `without` are as for `track_update`.
    """
    _check(config, shape, api_version, kind)
    present = live if live is not None else shape.blank
    owners = _present_owners(live, shape, api_version, now, without)
    writer = Manager(manager, "Apply", api_version, subresource)
    previous = owners.get(writer, Owned({}, now))
    owners[writer] = Owned(_claimed(trackable(config, only, without), shape), previous.time)

    made = _laid_over(present, config, shape, only, without)
    if previous.fields:
        made = prune(made, shape, previous.fields, _owned_by_anyone(owners))
    made = {**made, "apiVersion": api_version, "kind": kind}
    before, after = trackable(present, only, without), trackable(made, only, without)
    owners = _settle(owners, before, after, shape, writer, force=force)
    if live is not None and with_owners(made, owners) == live:
        return live
    if writer in owners:
        owners[writer] = Owned(owners[writer].fields, now)
    return with_owners(made, owners)


def _present_owners(live: Raw | None, shape: Shape, api_version: str, now: str, without: Sequence[str]) -> Owners:
    """Who owns what so far; where nobody does, everything was there before the first apply."""
    owners = read_owners((live or {}).get("metadata", {}).get("managedFields"))
    if live is None or owners:
        return owners
    changes = compare(trackable(shape.blank, (), without), trackable(live, (), without), shape)
    found = union(changes.modified, changes.added)
    return {Manager(_BEFORE, "Update", api_version): Owned(found, now)} if found else {}


def _claimed(config: Raw, shape: Shape) -> FieldSet:
    fields = applied(config, shape)
    return {element: node for element, node in fields.items() if element != "f:metadata" or node}


def _owned_by_anyone(owners: Owners) -> FieldSet:
    kept: FieldSet = {"f:metadata": {"f:name": LEAF}}  # every configuration names its object, though nobody owns names
    for owned in owners.values():
        kept = union(kept, owned.fields)
    return kept


def _laid_over(live: Raw, config: Raw, shape: Shape, only: Sequence[str], without: Sequence[str]) -> Raw:
    wanted = {
        key: value
        for key, value in config.items()
        if key != "metadata" and key not in without and (not only or key in only)
    }
    merged: Raw = merge({key: value for key, value in live.items() if key != "metadata"}, wanted, shape)
    merged["metadata"] = _merged_metadata(live.get("metadata") or {}, config.get("metadata") or {}, shape, only)
    return merged


def _merged_metadata(live: Raw, config: Raw, shape: Shape, only: Sequence[str]) -> Raw:
    """Metadata as applied; through a subresource it stays what it was, but for the identity that must match."""
    if only:
        return {
            **live,
            **{key: config[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in config},
        }
    merged: Raw = merge(live, config, shape.fields["metadata"])
    return merged
