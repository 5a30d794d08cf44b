"""Server-side apply: merges what a manager declares into the live object and reports conflicts with other managers."""

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
from trimtab.api.patch.go_values import format_go_value, go_type_name
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


def _misfits(value: Any, schema: Shape, path: str) -> Iterator[str]:
    """Where an applied configuration does not match the schema, in the words of structured-merge-diff."""
    if value is None:
        return
    if schema.form is Form.SCALAR:
        if text := _scalar_misfit(value, schema):
            yield f"{path}: {text}"
    elif schema.form is Form.ANY:
        return
    elif schema.type == "array":
        yield from _list_misfits(value, schema, path)
    elif not isinstance(value, dict):
        yield f"{path}: expected map, got &{{{format_go_value(value)}}}"
    else:
        for key, item in value.items():
            inner = schema.member(key)
            if inner is None:
                yield f"{path}.{key}: field not declared in schema"
            else:
                yield from _misfits(item, inner, f"{path}.{key}")


def _scalar_misfit(value: Any, schema: Shape) -> str:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if schema.type in ("integer", "number") and not numeric:
        return f"expected numeric (int or float), got {go_type_name(value)}"
    if schema.type == "string" and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{format_go_value(value)}}}"
    if schema.type == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got &{{{format_go_value(value)}}}"
    if not schema.type and isinstance(value, dict | list):
        return f"expected any scalar, got &{{{format_go_value(value)}}}"
    return ""


def _list_misfits(value: Any, schema: Shape, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: expected list, got &{{{format_go_value(value)}}}"
        return
    elements: set[str] = set()
    for index, item in enumerate(value):
        if schema.form is Form.ATOMIC:
            yield from _misfits(item, schema.item, f"{path}[{index}]")
            continue
        element = item_element(item, schema)
        if element is None:
            missing = next((k for k in schema.keys if not isinstance(item, dict) or k not in item), "")
            yield (
                f"{path}: element {index}: associative list with keys has an element that omits key field "
                f'"{missing}" (and doesn\'t have default value)'
            )
            continue
        where = next(paths({element: {}}))
        if element in elements:
            yield f"{path}: duplicate entries for key {where}"
        elements.add(element)
        yield from _misfits(item, schema.item, f"{path}{where}")


def _check(config: Raw, schema: Shape, api_version: str, kind: str) -> None:
    metadata = config.get("metadata") or {}
    if isinstance(metadata, dict) and metadata.get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil")
    config_version, config_kind = config.get("apiVersion", ""), config.get("kind", "")
    if (config_version, config_kind) != (api_version, kind):
        version = config_version if "/" in str(config_version) else f"/{config_version}"
        raise BadRequest(f"invalid object type: {version}, Kind={config_kind}")
    found = list(_misfits(config, schema, ""))
    if found:
        text = found[0] if len(found) == 1 else "errors:\n  " + "\n  ".join(found)
        where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}" if isinstance(metadata, dict) else "/"
        version = api_version if "/" in api_version else f"/{api_version}"
        raise Unclassified(f"failed to create typed patch object ({where}; {version}, Kind={kind}): {text}")


def merge(live: Any, config: Any, schema: Shape) -> Any:
    """`config` merged into `live`: maps by member, keyed lists and sets by item, everything else replaced."""
    if isinstance(live, dict) and isinstance(config, dict) and schema.form in (Form.MAP, Form.ANY):
        merged = dict(live)
        for key, value in config.items():
            merged[key] = merge(live[key], value, schema.member(key) or ANYTHING) if key in live else value
        return merged
    if isinstance(live, list) and isinstance(config, list) and schema.form in (Form.KEYED, Form.SET):
        return _merge_items(live, config, schema)
    return config


def _merge_items(live: list[Any], config: list[Any], schema: Shape) -> list[Any]:
    """Items in the order of the configuration; other items keep their position relative to the shared ones."""
    before, wanted = items_by_element(live, schema), items_by_element(config, schema)
    merged: list[Any] = []
    for element in _merged_order(list(before), list(wanted)):
        if element in before and element in wanted:
            merged.append(merge(before[element], wanted[element], schema.item))
        else:
            merged.append(wanted[element] if element in wanted else before[element])
    return merged


def _merged_order(live: list[str], config: list[str]) -> list[str]:
    """Both lists merged, each element once: the order of the configuration holds, live-only elements are inserted."""
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
                break  # a shared element is placed when the configuration reaches it
            at += 1
        merged.append(element)
        done.add(element)
    return merged + [element for element in live[at:] if element not in config]


def _keeps(kept: FieldSet | None, *, declared: bool) -> bool:
    """Whether a manager owns this node; a declared field counts as owned when anything in it is."""
    return kept is not None and (declared or is_member(kept))


def prune(value: Any, schema: Shape, last: FieldSet, kept: FieldSet) -> Any:
    """`value` without what was in `last` and no manager owns any more."""
    if isinstance(value, dict):
        return _prune_map(value, schema, last, kept)
    if isinstance(value, list) and schema.form in (Form.KEYED, Form.SET):
        items = []
        for item in value:
            element = item_element(item, schema) or ""
            if element not in last:
                items.append(item)
            elif _keeps(kept.get(element), declared=False) or not is_member(last[element]):
                items.append(prune(item, schema.item, last[element], kept.get(element, {})))
        return items
    return value


def _prune_map(value: Raw, schema: Shape, last: FieldSet, kept: FieldSet) -> Raw:
    members: Raw = {}
    for key, item in value.items():
        element = f"f:{key}"
        declared = key in schema.fields
        if element not in last:
            members[key] = item
        elif _keeps(kept.get(element), declared=declared) or not (declared or is_member(last[element])):
            inner = schema.member(key) or ANYTHING
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


def _settle(owners: Owners, live: Raw, merged: Raw, schema: Shape, manager: Manager, *, force: bool) -> Owners:
    changes = compare(live, merged, schema)
    changed = union(changes.modified, changes.added)
    if not force and changed:
        conflicts = {
            other: shared
            for other, owned in owners.items()
            if other != manager and (shared := intersection(owned.fields, changed))
        }
        if conflicts:
            _refuse_conflicts(conflicts)
    return taken_from(owners, changes, manager)


def apply(
    live: Raw | None,
    config: Raw,
    schema: Shape,
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
    """The object that results when `manager` applies `config` to `live` (None: it does not exist yet).

    The result carries its managedFields and still has to be decoded, defaulted and validated. When nothing changes, it
    equals `live`. `only` and `without` are as for `track_update`.
    """
    _check(config, schema, api_version, kind)
    present = live if live is not None else schema.blank
    owners = _present_owners(live, schema, api_version, now, without)
    writer = Manager(manager, "Apply", api_version, subresource)
    previous = owners.get(writer, Owned({}, now))
    owners[writer] = Owned(_claimed(trackable(config, only, without), schema), previous.time)

    merged = _laid_over(present, config, schema, only, without)
    if previous.fields:
        merged = prune(merged, schema, previous.fields, _owned_by_anyone(owners))
    merged = {**merged, "apiVersion": api_version, "kind": kind}
    before, after = trackable(present, only, without), trackable(merged, only, without)
    owners = _settle(owners, before, after, schema, writer, force=force)
    if live is not None and with_owners(merged, owners) == live:
        return live
    if writer in owners:
        owners[writer] = Owned(owners[writer].fields, now)
    return with_owners(merged, owners)


def _present_owners(live: Raw | None, schema: Shape, api_version: str, now: str, without: Sequence[str]) -> Owners:
    """The current owners; where there are none, everything is attributed to `before-first-apply`."""
    owners = read_owners((live or {}).get("metadata", {}).get("managedFields"))
    if live is None or owners:
        return owners
    changes = compare(trackable(schema.blank, (), without), trackable(live, (), without), schema)
    found = union(changes.modified, changes.added)
    return {Manager(_BEFORE, "Update", api_version): Owned(found, now)} if found else {}


def _claimed(config: Raw, schema: Shape) -> FieldSet:
    fields = applied(config, schema)
    return {element: node for element, node in fields.items() if element != "f:metadata" or node}


def _owned_by_anyone(owners: Owners) -> FieldSet:
    # every configuration names its object, though no manager owns the name
    kept: FieldSet = {"f:metadata": {"f:name": LEAF}}
    for owned in owners.values():
        kept = union(kept, owned.fields)
    return kept


def _laid_over(live: Raw, config: Raw, schema: Shape, only: Sequence[str], without: Sequence[str]) -> Raw:
    wanted = {
        key: value
        for key, value in config.items()
        if key != "metadata" and key not in without and (not only or key in only)
    }
    merged: Raw = merge({key: value for key, value in live.items() if key != "metadata"}, wanted, schema)
    merged["metadata"] = _merged_metadata(live.get("metadata") or {}, config.get("metadata") or {}, schema, only)
    return merged


def _merged_metadata(live: Raw, config: Raw, schema: Shape, only: Sequence[str]) -> Raw:
    """The merged metadata; through a subresource only the identifying fields that must match are taken over."""
    if only:
        return {
            **live,
            **{key: config[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in config},
        }
    merged: Raw = merge(live, config, schema.fields["metadata"])
    return merged
