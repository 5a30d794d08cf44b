"""Whether the CustomResourceDefinitions of an API server have all fields that this version uses.

An API server drops fields that a definition lacks, without an error. With definitions of an earlier version, or with those of
Karmada, it would drop the holds of a binding, for instance, and a move would remove replicas before their replacement is ready.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trimtab.api.kind import Kind
from trimtab.api.schema.from_types import crd
from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.client.storage_migration import DEFINITIONS
from trimtab.errors import ApiError, InputError, NotFound, Unavailable

WRITTEN_GROUPS = ("work.karmada.io", "trimtab.dev")
"""The groups whose objects the controllers write in fields that only Trimtab has."""
UPGRADE = "upgrade the chart trimtab-crds, or run `trimtab crds | kubectl apply --server-side --force-conflicts -f -`"
RETRY_SECONDS = 2.0
log = logging.getLogger("trimtab.definitions")


def missing_fields(wanted: Raw, found: Raw) -> list[str]:
    """Paths of fields in the storage version of one definition that the other one lacks."""
    version = next(one for one in wanted["spec"]["versions"] if one["storage"])
    for other in found["spec"]["versions"]:
        if other["name"] == version["name"] and other["served"]:
            ours, theirs = (one["schema"]["openAPIV3Schema"] for one in (version, other))
            return list(_missing(ours, theirs, ""))
    return [f"version {version['name']}"]


def _missing(ours: Raw, theirs: Raw, path: str) -> Iterator[str]:
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = theirs.get("properties") or {}
    for name, schema in (ours.get("properties") or {}).items():
        if name in known:
            yield from _missing(schema, known[name], f"{path}{name}.")
        elif name not in ("apiVersion", "kind", "metadata"):
            yield f"{path}{name}"
    for part in ("items", "additionalProperties"):
        if isinstance(ours.get(part), Mapping) and isinstance(theirs.get(part), Mapping):
            yield from _missing(ours[part], theirs[part], path)


async def outdated_kinds(client: Client, kinds: Iterable[Kind]) -> dict[str, list[str]]:
    """The fields that kinds which the controllers write lack on this API server; kinds without a definition are left out."""
    found = {}
    for kind in kinds:
        if kind.group not in WRITTEN_GROUPS:
            continue
        try:
            definition = await client.get(DEFINITIONS, "", kind.id)
        except NotFound:
            continue
        if missing := missing_fields(crd(kind), definition):
            found[kind.id] = missing
    return found


def describe_outdated(outdated: Mapping[str, list[str]]) -> str:
    """The kinds with the first field that each lacks."""
    parts = []
    for kind, fields in outdated.items():
        more = f" and {len(fields) - 1} more fields" if len(fields) > 1 else ""
        parts.append(f"{kind} lacks {fields[0]}{more}")
    return "; ".join(parts)


async def check_definitions(client: Client, kinds: Sequence[Kind]) -> None:
    """Raise InputError if the API server would drop what the controllers write; wait until it answers."""
    while True:
        try:
            outdated = await outdated_kinds(client, kinds)
        except (OSError, TimeoutError, Unavailable) as fault:
            log.warning("cannot read the definitions of kinds: %s", str(fault) or type(fault).__name__)
            await asyncio.sleep(RETRY_SECONDS)
            continue
        except ApiError as fault:  # this user may not read definitions
            log.warning("cannot check the definitions of kinds: %s", fault)
            return
        if outdated:
            raise InputError(
                f"the definitions on the API server are older than these controllers, or of somebody else: "
                f"{describe_outdated(outdated)}. What is written there would be lost: {UPGRADE}; "
                "with Karmada's own definitions use --profile upstream"
            )
        return
