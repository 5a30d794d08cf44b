"""Snapshots: the state of a fleet in one file, from which plans are made without the fleet.

A snapshot has what decisions read: clusters with their capacity, policies, bindings, budgets, scores and templates. Secrets
are left out, and of templates of other kinds only those that are propagated. With hashed names it can be given to others:
the same name always becomes the same hash, so references between objects stay valid.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from trimtab.api.kind import find_kind, kind_of
from trimtab.api.profile import PROFILES
from trimtab.api.value import Field, Raw, Value, never_omit
from trimtab.dryrun.fleet_state import FleetState, name_of
from trimtab.errors import InputError

FORMAT = "trimtab-snapshot/1"
MAX_BYTES = 1 << 30
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SECRET_KINDS = ("Secret",)
CONTENT_FIELDS = ("data", "binaryData", "stringData")
"""Fields of ConfigMaps and the like that no decision reads."""


class Snapshot(Value):
    """A fleet at one time."""

    taken: Annotated[datetime, Field("When the snapshot was taken.")]
    format: str = never_omit(FORMAT)
    profile: str = "trimtab"
    settings: Annotated[dict[str, Any], Field("The settings of the controllers that were given.")] = {}
    objects: Annotated[tuple[Raw, ...], Field("Objects that decisions read.")] = ()
    templates: Annotated[tuple[Raw, ...], Field("Templates of workloads.")] = ()


def snapshot_of(state: FleetState, *, hash_names: bool = False) -> Snapshot:
    """The snapshot of a state; without Secrets, contents of ConfigMaps and field managers."""
    objects = [kind_of(thing).encode(thing) for found in state.objects.values() for thing in found.values()]
    templates = [raw for found in state.templates.values() for raw in found.values() if raw["kind"] not in SECRET_KINDS]
    cleaned = [without_contents(raw) for raw in objects], [without_contents(raw) for raw in templates]
    if hash_names:
        names = names_to_hash([*cleaned[0], *cleaned[1]])
        cleaned = (
            [with_hashed_names(raw, names) for raw in cleaned[0]],
            [with_hashed_names(raw, names) for raw in cleaned[1]],
        )
    return Snapshot(
        taken=state.now,
        profile=state.profile.name,
        settings=dict(state.settings),
        objects=tuple(cleaned[0]),
        templates=tuple(cleaned[1]),
    )


def without_contents(raw: Raw) -> Raw:
    metadata = {key: value for key, value in raw["metadata"].items() if key != "managedFields"}
    if LAST_APPLIED in (metadata.get("annotations") or {}):
        annotations = {key: value for key, value in metadata["annotations"].items() if key != LAST_APPLIED}
        metadata["annotations"] = annotations
    kept = {key: value for key, value in raw.items() if key not in CONTENT_FIELDS}
    return {**kept, "metadata": metadata}


def names_to_hash(raws: list[Raw]) -> Mapping[str, str]:
    """Hashes of the names of all objects and of their namespaces; `default` and system namespaces keep theirs."""
    names = {name for raw in raws for name in name_of(raw) if name}
    kept = {"default", *(name for name in names if name.startswith(("kube-", "karmada-", "system:")))}
    return {name: f"n{hashlib.sha256(name.encode()).hexdigest()[:10]}" for name in sorted(names - kept)}


def with_hashed_names(value: Any, names: Mapping[str, str]) -> Any:
    """The value with every name replaced, wherever a text is one or consists of some and separators."""
    if isinstance(value, dict):
        return {key: with_hashed_names(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [with_hashed_names(item, names) for item in value]
    if not isinstance(value, str):
        return value
    if value in names:
        return names[value]
    return "".join(names.get(word, word) for word in re.split(r"([/ ,\"])", value))


def read_snapshot(path: Path) -> FleetState:
    """The state in a snapshot file; raises InputError when it is not one."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} is larger than {MAX_BYTES >> 20} MiB")
        snapshot = msgspec.json.decode(path.read_bytes(), type=Snapshot)
    except OSError as fault:
        raise InputError(f"cannot read {path}: {fault.strerror or fault}") from fault
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise InputError(f"{path} is not a snapshot that `trimtab snapshot` has written: {fault}") from fault
    if snapshot.format != FORMAT:
        raise InputError(f"{path} has the format {snapshot.format!r}; this version reads {FORMAT}")
    if snapshot.profile not in PROFILES:
        raise InputError(f"{path} has the unknown profile {snapshot.profile!r}")
    return FleetState.of(
        typed_objects(snapshot), snapshot.templates, snapshot.taken, PROFILES[snapshot.profile], snapshot.settings
    )


def typed_objects(snapshot: Snapshot) -> Iterator[Any]:
    for raw in snapshot.objects:
        kind = find_kind(raw["apiVersion"], raw["kind"])
        if kind is None:
            raise InputError(f"the snapshot has an object of the unknown kind {raw['kind']} of {raw['apiVersion']}")
        yield kind.decode(raw)
