"""Backups of a control plane on any API server: its objects in one compressed file, and their way back.

An API server other than Trimtab's own has no snapshot for clients; its etcd has, and that is the better backup where it can be
reached, because it keeps uids. An archive needs only the API. It has the objects of Trimtab, Karmada and Open Cluster
Management, the workloads that they propagate, namespaces, and the credentials of the members. It is read kind by kind while the
server goes on, so it is not one moment; a binding that is missed is made again from its policy.

An API server gives a restored object a new uid and starts its generation at 1. Therefore objects are created owners first, every
old uid that a later one mentions is replaced, and a binding is marked as scheduled in its new generation, so that the scheduler
does not decide again. Ids in labels stay, because members have them, except those of policies: admission draws new ones.
"""

import gzip
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple

import orjson

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import timestamp
from trimtab.errors import AlreadyExists, ApiError, InputError, MethodNotAllowed, NotFound

FORMAT = "trimtab-objects/1"
MAGIC = b"\x1f\x8b"
MAX_LINE_BYTES = 16 << 20
MAX_ID_LENGTH = 100
MAX_BYTES = 4 << 30
"""Of all objects, uncompressed: a small file can stand for any number of bytes."""
GROUP_SUFFIXES = (".karmada.io", ".open-cluster-management.io", "trimtab.dev", "multicluster.x-k8s.io")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SECRETS = Resource("", "v1", "secrets", "Secret")
SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
FIRST_KINDS = ("Namespace", "Secret", "Cluster", "PropagationPolicy", "ClusterPropagationPolicy")
LAST_KINDS = ("ResourceBinding", "ClusterResourceBinding", "Work")
BINDING_KINDS = LAST_KINDS[:2]
SERVER_METADATA = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


class ArchiveHeader(NamedTuple):
    """The first line of an archive."""

    taken: str
    objects: int
    control_planes: tuple[str, ...] = ()
    """The ids that its objects in members carry."""


class RestoreResult(NamedTuple):
    created: int
    existing: int
    failed: tuple[str, ...]


async def write_archive(
    client: Client, out: BinaryIO, now: datetime, control_planes: tuple[str, ...] = ()
) -> ArchiveHeader:
    """Write all objects of the control plane; nothing else in the cluster is read."""
    served = [resource for resource in await client.resources() if "list" in resource.verbs]
    objects: list[Raw] = [raw async for raw in _own_objects(client, served)]
    if not objects:
        raise InputError("the API server has no objects of Trimtab, Karmada or Open Cluster Management")
    wanted = {ref for raw in objects for ref in _templates_of(raw)}
    credentials = {place for raw in objects if (place := _credentials_of(raw)) is not None}
    for resource in served:
        kind = (resource.api_version, resource.kind)
        if resource.id == SECRETS.id and credentials:
            objects += [raw async for raw in _read_named(client, resource, credentials)]
        names = {(namespace, name) for one, namespace, name in wanted if one == kind} - credentials
        if names and not _is_own(resource):
            objects += [raw async for raw in _read_named(client, resource, names)]
    objects += [
        raw
        for raw in (await client.list(NAMESPACES)).items
        if raw["metadata"]["name"] not in SYSTEM_NAMESPACES and not raw["metadata"].get("deletionTimestamp")
    ]
    header = ArchiveHeader(timestamp(now), len(objects), control_planes)
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as packed:
        packed.write(orjson.dumps({"format": FORMAT, **header._asdict()}) + b"\n")
        for raw in objects:
            packed.write(orjson.dumps(raw) + b"\n")
    return header


def is_archive(file: BinaryIO) -> bool:
    """Whether the file starts as an archive does; the position stays."""
    start = file.read(len(MAGIC))
    file.seek(0)
    return start == MAGIC


def read_archive(file: BinaryIO) -> tuple[ArchiveHeader, list[Raw]]:
    """The objects of an archive; raises InputError if it is none, or is cut off."""
    try:
        lines = _lines(file)
        head = orjson.loads(next(lines, b"{}"))
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            found = head.get("format") if isinstance(head, dict) else None
            raise InputError(f"the archive has the format {found!r}; this version reads {FORMAT}")
        objects = [orjson.loads(line) for line in lines]
    except (OSError, EOFError, zlib.error, orjson.JSONDecodeError) as fault:
        raise InputError(f"the file is not a complete archive of objects: {fault}") from fault
    control_planes = tuple(filter(is_id, head.get("control_planes") or ()))
    header = ArchiveHeader(str(head.get("taken", "")), head.get("objects", -1), control_planes)
    if len(objects) != header.objects:
        raise InputError(f"the archive is cut off: it has {len(objects)} of {header.objects} objects")
    if not all(map(is_object, objects)):
        raise InputError("the file is not an archive of objects: one has no kind or name")
    return header, objects


def is_id(value: Any) -> bool:
    """Whether it can be the id of a control plane."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH and value.isascii() and "," not in value


def is_object(raw: Any) -> bool:
    """Whether it has a kind and a name, and metadata of the right types."""
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(metadata, dict):
        return False
    texts = (raw.get("apiVersion"), raw.get("kind"), metadata.get("name"))
    optional = (metadata.get("namespace", ""), metadata.get("uid", ""))
    maps = (metadata.get("labels") or {}, metadata.get("annotations") or {})
    return (
        all(isinstance(text, str) and text for text in texts)
        and all(isinstance(text, str) for text in optional)
        and all(isinstance(found, dict) for found in maps)
        and isinstance(metadata.get("ownerReferences") or [], list)
    )


def _lines(file: BinaryIO) -> Iterator[bytes]:
    size = 0
    with gzip.GzipFile(fileobj=file, mode="rb") as packed:
        while line := packed.readline(MAX_LINE_BYTES + 1):
            size += len(line)
            if len(line) > MAX_LINE_BYTES:
                raise InputError(f"the archive has a line of more than {MAX_LINE_BYTES >> 20} MiB")
            if size > MAX_BYTES:
                raise InputError(f"the archive has more than {MAX_BYTES >> 20} MiB")
            yield line


async def restore_archive(client: Client, objects: Sequence[Raw]) -> RestoreResult:
    """Create the objects that do not exist; existing ones stay as they are."""
    served = {(resource.api_version, resource.kind): resource for resource in await client.resources()}
    uids: dict[str, str] = {}
    """New ids by old ones."""
    created, existing, failed = 0, 0, []
    for raw in in_restore_order(objects):
        resource, place = served.get((raw["apiVersion"], raw["kind"])), name_of(raw)
        if resource is None:
            failed.append(f"{place}: the API server does not serve {raw['apiVersion']} {raw['kind']}")
            continue
        if raw["metadata"].get("deletionTimestamp"):
            continue  # it was being deleted
        try:
            made = await _create(client, resource, raw, uids)
            created += 1
        except AlreadyExists:
            metadata = raw["metadata"]
            made = await client.get(resource, metadata.get("namespace", ""), metadata["name"])
            existing += 1
        except ApiError as fault:
            failed.append(f"{place}: {fault}")
            continue
        uids |= changed_ids(raw["metadata"], made["metadata"])
    return RestoreResult(created, existing, tuple(failed))


def changed_ids(old: Raw, new: Raw) -> dict[str, str]:
    """The uid, and the id of a policy, by the one that the object had."""
    ids = {old["uid"]: new["uid"]} if old.get("uid") else {}
    labels = new.get("labels") or {}
    for label, value in (old.get("labels") or {}).items():
        if label.endswith("/permanent-id") and labels.get(label, value) != value:
            ids[value] = labels[label]
    return ids


async def _create(client: Client, resource: Resource, raw: Raw, uids: dict[str, str]) -> Raw:
    body = with_new_uids(without_server_fields(raw), uids)
    made = await client.create(resource, body, manager="trimtab-restore")
    status = with_new_uids(raw.get("status"), uids)
    if not status:
        return made
    if raw["kind"] in BINDING_KINDS and "schedulerObservedGeneration" in status:
        status = {**status, "schedulerObservedGeneration": made["metadata"].get("generation", 1)}
    metadata = made["metadata"]
    try:
        return await client.patch(
            resource,
            metadata.get("namespace", ""),
            metadata["name"],
            {"status": status},
            subresource="status",
            manager="trimtab-restore",
        )
    except (NotFound, MethodNotAllowed):
        return made  # a kind without a status of its own


def in_restore_order(objects: Sequence[Raw]) -> list[Raw]:
    """Namespaces and credentials first, bindings and Works last; an owner before what it owns."""

    def rank(raw: Raw) -> tuple[int, int, bool]:
        kind = raw["kind"]
        if kind in FIRST_KINDS:
            return 0, FIRST_KINDS.index(kind), False
        return (2, LAST_KINDS.index(kind), False) if kind in LAST_KINDS else (1, 0, _has_owner(raw))

    return sorted(objects, key=rank)


def _has_owner(raw: Raw) -> bool:
    return bool(raw["metadata"].get("ownerReferences"))


def without_server_fields(raw: Raw) -> Raw:
    metadata = {key: value for key, value in raw["metadata"].items() if key not in SERVER_METADATA}
    return {**{key: value for key, value in raw.items() if key != "status"}, "metadata": metadata}


def with_new_uids(value: Any, uids: dict[str, str]) -> Any:
    """The value with the new uid wherever a text is an old one."""
    if isinstance(value, dict):
        return {key: with_new_uids(inner, uids) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_new_uids(inner, uids) for inner in value]
    return uids.get(value, value) if isinstance(value, str) else value


def name_of(raw: Raw) -> str:
    metadata = raw["metadata"]
    return f"{raw['kind']} {'/'.join(filter(None, (metadata.get('namespace'), metadata['name'])))}"


def _is_own(resource: Resource) -> bool:
    return resource.group.endswith(GROUP_SUFFIXES)


async def _own_objects(client: Client, served: Sequence[Resource]) -> AsyncIterator[Raw]:
    for resource in served:
        if _is_own(resource):
            try:
                listed = (await client.list(resource)).items
            except (NotFound, MethodNotAllowed):
                continue  # computed kinds, such as search results
            for raw in listed:
                yield {"apiVersion": resource.api_version, "kind": resource.kind, **raw}


async def _read_named(client: Client, resource: Resource, names: set[tuple[str, str]]) -> AsyncIterator[Raw]:
    for raw in (await client.list(resource)).items:
        metadata = raw["metadata"]
        if (metadata.get("namespace", ""), metadata["name"]) in names:
            yield {"apiVersion": resource.api_version, "kind": resource.kind, **raw}


def _templates_of(raw: Raw) -> Iterator[tuple[tuple[str, str], str, str]]:
    """The workload of a binding."""
    if raw["kind"] in BINDING_KINDS:
        ref = (raw.get("spec") or {}).get("resource") or {}
        yield (ref.get("apiVersion", ""), ref.get("kind", "")), ref.get("namespace", ""), ref.get("name", "")


def _credentials_of(raw: Raw) -> tuple[str, str] | None:
    ref = (raw.get("spec") or {}).get("secretRef") if raw["kind"] == "Cluster" else None
    return (ref["namespace"], ref["name"]) if ref else None
