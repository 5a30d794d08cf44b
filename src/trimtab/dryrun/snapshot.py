"""Snapshots: the state of a fleet in one file, from which plans are made without the fleet.

A snapshot has what decisions read: clusters with their capacity, policies, bindings, budgets, scores and templates. Secrets,
contents of ConfigMaps, values of environment variables and the addresses of clusters are left out, and of templates of other
kinds only those that are propagated. With hashed names it can be given to others: in one snapshot the same name always becomes
the same hash, so references between objects stay valid. The hashes have a key that nobody keeps, so names cannot be guessed.

A snapshot may come from somebody else. Reading it refuses what no server would have stored: names that are paths, objects that do
not fit their schema, and settings that users cannot give.
"""

import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from trimtab.api.kind import Kind, find_kind, kind_of
from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.work import ClusterResourceBinding, ResourceBinding
from trimtab.api.names import label_faults, path_segment_faults, subdomain_faults
from trimtab.api.profile import PROFILES
from trimtab.api.value import Field, Object, Raw, Value, never_omit
from trimtab.controllers.settings import known_settings
from trimtab.dryrun.fleet_state import KINDS, FleetState, name_of
from trimtab.errors import InputError, unreadable

FORMAT = "trimtab-snapshot/1"
MAX_BYTES = 1 << 30
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SECRET_KINDS = ("Secret",)
CONTENT_FIELDS = ("data", "binaryData", "stringData")
"""Fields of ConfigMaps and the like that no decision reads."""
ADDRESS_FIELDS = (
    *("apiEndpoint", "proxyURL", "proxyHeader", "secretRef", "impersonatorSecretRef"),
    "managedClusterClientConfigs",
)
"""Fields of a cluster's spec that say how to reach it."""
CLUSTER_KINDS = ("Cluster", "ManagedCluster")
CONTAINER_FIELDS = ("containers", "initContainers", "ephemeralContainers")
UNCHECKED_TYPES = (ResourceBinding, ClusterResourceBinding, Move)
"""Types that controllers write, of which a fleet has many: they are decoded, and not validated."""
NAME_WORDS = re.compile(r"([^A-Za-z0-9.\-]+)")


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
    """The object without contents and addresses, which no decision reads."""
    metadata = {key: value for key, value in raw["metadata"].items() if key != "managedFields"}
    if LAST_APPLIED in (metadata.get("annotations") or {}):
        annotations = {key: value for key, value in metadata["annotations"].items() if key != LAST_APPLIED}
        metadata["annotations"] = annotations
    kept = {key: value for key, value in raw.items() if key not in CONTENT_FIELDS}
    if raw["kind"] in CLUSTER_KINDS and isinstance(raw.get("spec"), dict):
        kept["spec"] = {key: value for key, value in raw["spec"].items() if key not in ADDRESS_FIELDS}
    return {**without_environment(kept), "metadata": metadata}


def without_environment(value: Any) -> Any:
    """The value without the values of the environment variables of containers, in which passwords are common."""
    if isinstance(value, list):
        return [without_environment(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: without_environment(item) for key, item in value.items()}
    for field in CONTAINER_FIELDS:
        if isinstance(containers := found.get(field), list):
            found[field] = [without_values(container) for container in containers]
    return found


def without_values(container: Any) -> Any:
    if not isinstance(container, dict) or not isinstance(container.get("env"), list):
        return container
    kept = [{k: v for k, v in entry.items() if k != "value"} for entry in container["env"] if isinstance(entry, dict)]
    return {**container, "env": kept}


def names_to_hash(raws: list[Raw]) -> Mapping[str, str]:
    """Hashes of the names of all objects and of their namespaces; `default` and system namespaces keep theirs."""
    names = {name for raw in raws for name in name_of(raw) if name}
    kept = {"default", *(name for name in names if name.startswith(("kube-", "karmada-", "system:", "system-")))}
    key = secrets.token_bytes()
    return {
        name: f"n{hashlib.blake2s(name.encode(), key=key, digest_size=8).hexdigest()}" for name in sorted(names - kept)
    }


def with_hashed_names(value: Any, names: Mapping[str, str]) -> Any:
    """The value with every name replaced, wherever a text is one or consists of some and separators; also in keys."""
    if isinstance(value, dict):
        return {names.get(key, key): with_hashed_names(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [with_hashed_names(item, names) for item in value]
    if not isinstance(value, str):
        return value
    if value in names:
        return names[value]
    return "".join(names.get(word, word) for word in NAME_WORDS.split(value))


def read_snapshot(path: Path) -> FleetState:
    """The state in a snapshot file; raises InputError when it is not one."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} is larger than {MAX_BYTES >> 20} MiB")
        snapshot = msgspec.json.decode(path.read_bytes(), type=Snapshot)
    except OSError as fault:
        raise unreadable(path, fault) from fault
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise InputError(f"{path} is not a snapshot that `trimtab snapshot` has written: {fault}") from fault
    if snapshot.format != FORMAT:
        raise InputError(f"{path} has the format {snapshot.format!r}; this version reads {FORMAT}")
    if snapshot.profile not in PROFILES:
        raise InputError(f"{path} has the unknown profile {snapshot.profile!r}")
    settings = {name: value for name, value in known_settings(snapshot.settings).items() if name != "agent"}
    try:
        for raw in (*snapshot.objects, *snapshot.templates):
            check_identity(raw)
        objects = list(typed_objects(snapshot))
        for raw in snapshot.templates:
            if (kind := find_kind(raw["apiVersion"], raw["kind"])) is not None:
                decode_object(kind, raw)
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from fault
    return FleetState.of(objects, snapshot.templates, snapshot.taken, PROFILES[snapshot.profile], settings)


def check_identity(raw: Raw) -> None:
    """Refuse an object without a kind and a name that a server would accept: stores and directories have these names."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        raise InputError("an object has no metadata")
    name, namespace = metadata.get("name"), metadata.get("namespace", "")
    texts = (raw.get("apiVersion"), raw.get("kind"), name, namespace)
    if not all(isinstance(text, str) for text in texts) or not all(texts[:3]):
        raise InputError(f"an object has no kind or name: {texts}")
    faults = [*path_segment_faults(str(name)), *(label_faults(namespace) if namespace else ())]
    if raw["kind"] in CLUSTER_KINDS:
        faults += subdomain_faults(str(name))
    if faults:
        raise InputError(f"{raw['kind']} {namespace}/{name!r}: {faults[0]}")


def typed_objects(snapshot: Snapshot) -> Iterator[Object]:
    from trimtab.dryrun.manifests import faults_of  # noqa: PLC0415 - it imports the schemas of a server

    for raw in snapshot.objects:
        kind = find_kind(raw["apiVersion"], raw["kind"])
        if kind is None or kind.type not in KINDS:
            raise InputError(f"the snapshot has an object of the unknown kind {raw['kind']} of {raw['apiVersion']}")
        if kind.custom and kind.type not in UNCHECKED_TYPES and (faults := faults_of(raw)):
            raise InputError(f"{raw['kind']} {raw['metadata']['name']}: {faults[0]}")
        yield decode_object(kind, raw)


def decode_object(kind: Kind, raw: Raw) -> Object:
    try:
        return kind.decode(raw)
    except (msgspec.ValidationError, ValueError) as fault:
        raise InputError(f"{raw['kind']} {raw['metadata']['name']}: {fault}") from fault
