"""Server-side apply: merges what a manager declares into the live object and reports conflicts with other managers."""

from collections.abc import Iterator, Sequence
from typing import Any

from trimtab.api.patch import last_applied
from trimtab.api.patch.field_ownership import (
    LEAF,
    FieldSet,
    applied_fields,
    compare,
    difference,
    format_paths,
    intersection,
    is_member,
    item_element,
    items_by_element,
    union,
)
from trimtab.api.patch.go_values import format_go_value, go_type_name
from trimtab.api.patch.managed_fields import (
    FieldManager,
    OwnedFields,
    Owners,
    read_owners,
    trackable_fields,
    with_owners,
    without_changed_fields,
)
from trimtab.api.patch.merge_schema import UNKNOWN_SCHEMA, MergeSchema, MergeType
from trimtab.api.value import Raw
from trimtab.errors import BadRequest, Cause, Conflict, Unclassified

_BEFORE_FIRST_APPLY = "before-first-apply"


def _schema_errors(value: Any, schema: MergeSchema, path: str) -> Iterator[str]:
    """Where an applied configuration does not match the schema, in the words of structured-merge-diff."""
    if value is None:
        return
    if schema.merge_type is MergeType.SCALAR:
        if text := _scalar_error(value, schema):
            yield f"{path}: {text}"
    elif schema.merge_type is MergeType.ANY:
        return
    elif schema.type == "array":
        yield from _list_errors(value, schema, path)
    elif not isinstance(value, dict):
        yield f"{path}: expected map, got &{{{format_go_value(value)}}}"
    else:
        for key, item in value.items():
            inner = schema.member(key)
            if inner is None:
                yield f"{path}.{key}: field not declared in schema"
            else:
                yield from _schema_errors(item, inner, f"{path}.{key}")


def _scalar_error(value: Any, schema: MergeSchema) -> str:
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


def _list_errors(value: Any, schema: MergeSchema, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: expected list, got &{{{format_go_value(value)}}}"
        return
    elements: set[str] = set()
    for index, item in enumerate(value):
        if schema.merge_type is MergeType.ATOMIC:
            yield from _schema_errors(item, schema.item, f"{path}[{index}]")
            continue
        element = item_element(item, schema)
        if element is None:
            missing = next((k for k in schema.keys if not isinstance(item, dict) or k not in item), "")
            yield (
                f"{path}: element {index}: associative list with keys has an element that omits key field "
                f'"{missing}" (and doesn\'t have default value)'
            )
            continue
        where = next(format_paths({element: {}}))
        if element in elements:
            yield f"{path}: duplicate entries for key {where}"
        elements.add(element)
        yield from _schema_errors(item, schema.item, f"{path}{where}")


def _check_config(config: Raw, schema: MergeSchema, api_version: str, kind: str) -> None:
    metadata = config.get("metadata") or {}
    if isinstance(metadata, dict) and metadata.get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil")
    config_version, config_kind = config.get("apiVersion", ""), config.get("kind", "")
    if (config_version, config_kind) != (api_version, kind):
        version = config_version if "/" in str(config_version) else f"/{config_version}"
        raise BadRequest(f"invalid object type: {version}, Kind={config_kind}")
    found = list(_schema_errors(config, schema, ""))
    if found:
        text = found[0] if len(found) == 1 else "errors:\n  " + "\n  ".join(found)
        where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}" if isinstance(metadata, dict) else "/"
        version = api_version if "/" in api_version else f"/{api_version}"
        raise Unclassified(f"failed to create typed patch object ({where}; {version}, Kind={kind}): {text}")


def merge(live: Any, config: Any, schema: MergeSchema) -> Any:
    """`config` merged into `live`: maps by member, keyed lists and sets by item, everything else replaced."""
    if isinstance(live, dict) and isinstance(config, dict) and schema.merge_type in (MergeType.MAP, MergeType.ANY):
        merged = dict(live)
        for key, value in config.items():
            merged[key] = merge(live[key], value, schema.member(key) or UNKNOWN_SCHEMA) if key in live else value
        return merged
    if isinstance(live, list) and isinstance(config, list) and schema.merge_type in (MergeType.KEYED, MergeType.SET):
        return _merge_items(live, config, schema)
    return config


def _merge_items(live: list[Any], config: list[Any], schema: MergeSchema) -> list[Any]:
    """Items in the order of the configuration; other items keep their position relative to the shared ones."""
    before, wanted = items_by_element(live, schema), items_by_element(config, schema)
    merged: list[Any] = []
    for element in _merge_order(list(before), list(wanted)):
        if element in before and element in wanted:
            merged.append(merge(before[element], wanted[element], schema.item))
        else:
            merged.append(wanted[element] if element in wanted else before[element])
    return merged


def _merge_order(live: list[str], config: list[str]) -> list[str]:
    """Both lists merged, each element once: the order of the configuration holds, live-only elements are inserted."""
    known, wanted = set(live), set(config)
    shared = [element for element in config if element in known]
    merged: list[str] = []
    done: set[str] = set()
    at = placed = 0
    for element in config:
        while placed < len(shared) and shared[placed] in done:
            placed += 1
        following = shared[placed] if placed < len(shared) else None
        while at < len(live) and live[at] != element:
            if live[at] not in wanted:
                merged.append(live[at])
            elif live[at] not in done and live[at] == following:
                break  # a shared element is placed when the configuration reaches it
            at += 1
        merged.append(element)
        done.add(element)
    return merged + [element for element in live[at:] if element not in wanted]


def _is_owned(kept: FieldSet | None, *, declared: bool) -> bool:
    """Whether a manager owns this node; a declared field counts as owned when anything in it is."""
    return kept is not None and (declared or is_member(kept))


def prune(value: Any, schema: MergeSchema, last: FieldSet, kept: FieldSet) -> Any:
    """`value` without what was in `last` and no manager owns any more."""
    if isinstance(value, dict):
        return _prune_map(value, schema, last, kept)
    if isinstance(value, list) and schema.merge_type in (MergeType.KEYED, MergeType.SET):
        items = []
        for item in value:
            element = item_element(item, schema) or ""
            if element not in last:
                items.append(item)
            elif _is_owned(kept.get(element), declared=False) or not is_member(last[element]):
                items.append(prune(item, schema.item, last[element], kept.get(element, {})))
        return items
    return value


def _prune_map(value: Raw, schema: MergeSchema, last: FieldSet, kept: FieldSet) -> Raw:
    members: Raw = {}
    for key, item in value.items():
        element = f"f:{key}"
        declared = key in schema.fields
        if element not in last:
            members[key] = item
        elif _is_owned(kept.get(element), declared=declared) or not (declared or is_member(last[element])):
            inner = schema.member(key) or UNKNOWN_SCHEMA
            members[key] = prune(item, inner, last[element], kept.get(element) or {})
    return members


def _describe_manager(manager: FieldManager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    return f"{text} using {manager.api_version}" if manager.operation == "Update" else text


def _raise_conflicts(conflicts: dict[FieldManager, FieldSet]) -> None:
    found = [(manager, path) for manager in sorted(conflicts) for path in format_paths(conflicts[manager])]
    causes = [
        Cause("FieldManagerConflict", f"conflict with {_describe_manager(manager)}", path) for manager, path in found
    ]
    if len(found) == 1:
        raise Conflict(f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}", causes=causes)
    lines: list[str] = []
    for manager in sorted(conflicts):
        lines.append(f"conflicts with {_describe_manager(manager)}:")
        lines += [f"- {path}" for path in format_paths(conflicts[manager])]
    raise Conflict(f"Apply failed with {len(found)} conflicts: " + "\n".join(lines), causes=causes)


def _transfer_ownership(
    owners: Owners, live: Raw, merged: Raw, schema: MergeSchema, manager: FieldManager, *, force: bool
) -> Owners:
    changes = compare(live, merged, schema)
    changed = union(changes.modified, changes.added)
    if not force and changed:
        conflicts = {
            other: shared
            for other, owned in owners.items()
            if other != manager and (shared := intersection(owned.fields, changed))
        }
        if conflicts and manager.name == last_applied.MANAGER:
            taken = last_applied.fields_to_take_over(live, schema, manager.api_version)
            rest = {other: difference(fields, taken) for other, fields in conflicts.items()}
            conflicts = {other: fields for other, fields in rest.items() if fields}
        if conflicts:
            _raise_conflicts(conflicts)
    return without_changed_fields(owners, changed, changes.removed, manager)


def apply(
    live: Raw | None,
    config: Raw,
    schema: MergeSchema,
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
    _check_config(config, schema, api_version, kind)
    present = live if live is not None else schema.empty_object
    owners = _live_owners(live, schema, api_version, now, without)
    writer = FieldManager(manager, "Apply", api_version, subresource)
    previous = owners.get(writer, OwnedFields({}, now))
    owners[writer] = OwnedFields(_claimed_fields(trackable_fields(config, only, without), schema), previous.time)

    merged = _merge_config(present, config, schema, only, without)
    if previous.fields:
        merged = prune(merged, schema, previous.fields, _all_owned_fields(owners))
    merged = {**merged, "apiVersion": api_version, "kind": kind}
    before, after = trackable_fields(present, only, without), trackable_fields(merged, only, without)
    owners = _transfer_ownership(owners, before, after, schema, writer, force=force)
    if manager == last_applied.MANAGER and not only:
        merged = last_applied.with_configuration(merged, config)
    if live is not None and with_owners(merged, owners) == live:
        return live
    if writer in owners:
        owners[writer] = OwnedFields(owners[writer].fields, now)
    return with_owners(merged, owners)


def _live_owners(live: Raw | None, schema: MergeSchema, api_version: str, now: str, without: Sequence[str]) -> Owners:
    """The current owners; where there are none, everything is attributed to `before-first-apply`."""
    owners = read_owners((live or {}).get("metadata", {}).get("managedFields"))
    if live is None or owners:
        return owners
    changes = compare(trackable_fields(schema.empty_object, (), without), trackable_fields(live, (), without), schema)
    found = union(changes.modified, changes.added)
    return {FieldManager(_BEFORE_FIRST_APPLY, "Update", api_version): OwnedFields(found, now)} if found else {}


def _claimed_fields(config: Raw, schema: MergeSchema) -> FieldSet:
    fields = applied_fields(config, schema)
    return {element: node for element, node in fields.items() if element != "f:metadata" or node}


def _all_owned_fields(owners: Owners) -> FieldSet:
    # every configuration names its object, though no manager owns the name
    kept: FieldSet = {"f:metadata": {"f:name": LEAF}}
    for owned in owners.values():
        kept = union(kept, owned.fields)
    return kept


def _merge_config(live: Raw, config: Raw, schema: MergeSchema, only: Sequence[str], without: Sequence[str]) -> Raw:
    wanted = {
        key: value
        for key, value in config.items()
        if key != "metadata" and key not in without and (not only or key in only)
    }
    merged: Raw = merge({key: value for key, value in live.items() if key != "metadata"}, wanted, schema)
    merged["metadata"] = _merge_metadata(live.get("metadata") or {}, config.get("metadata") or {}, schema, only)
    return merged


def _merge_metadata(live: Raw, config: Raw, schema: MergeSchema, only: Sequence[str]) -> Raw:
    """The merged metadata; through a subresource only the identifying fields that must match are taken over."""
    if only:
        return {
            **live,
            **{key: config[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in config},
        }
    merged: Raw = merge(live, config, schema.fields["metadata"])
    return merged
