"""What the controllers would do now.

`rehearse` copies the host into an API server in memory and runs all controllers on the copy, until they have nothing left to
do. They read the real members, but what they write there is recorded instead of sent, and what they write on the host changes
the copy only. So the whole chain is followed (a policy that selects other clusters, the Works that change with it, the objects
that these would delete), with the code that would run, and nothing is written anywhere.

It shows what happens within seconds. What waits for time (an evacuation after five minutes, a window of a budget) is not in it.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ClusterResourceBinding, ResourceBinding
from trimtab.api.profile import Profile
from trimtab.api.value import Raw
from trimtab.app import ControlPlane
from trimtab.client.client import Client
from trimtab.clock import Clock
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.clusters.served import is_served_by
from trimtab.errors import Unavailable
from trimtab.members.member_client import client_from_secret
from trimtab.rehearsal.host_copy import copy_host
from trimtab.rehearsal.read_only_member import (
    DELETE,
    MemberWrite,
    ReadOnlyMember,
    changed_fields,
    without_server_fields,
)
from trimtab.runtime.declarations import load_declarations
from trimtab.server.local import LocalClient

QUIET_SECONDS = 5.0
"""How long the controllers must have nothing to do."""
LONGEST_SECONDS = 180.0
POLL_SECONDS = 0.1
BINDING_TYPES = (ResourceBinding, ClusterResourceBinding)
IGNORED_KINDS = ("Event", "Lease", "Cluster")
"""Clusters get a new status from every probe; their taints are a decision, and are shown with what they cause."""

Connect = Callable[[Cluster], Client | None]


class PlacementChange(NamedTuple):
    """A binding that would get other clusters."""

    binding: str
    before: Mapping[str, int]
    after: Mapping[str, int]


class Rehearsal(NamedTuple):
    """What would be written."""

    member_writes: tuple[MemberWrite, ...]
    placements: tuple[PlacementChange, ...]
    host_changes: tuple[str, ...]
    """Objects of the host that would be created, changed or deleted, apart from their status."""
    not_read: tuple[str, ...]
    """Clusters that could not be read, or that an agent serves: what would be written there is not known."""
    left_out: tuple[str, ...]
    """Kinds of the host that could not be copied."""
    is_finished: bool
    """Whether the controllers had nothing left to do at the end."""

    @property
    def deletions(self) -> tuple[MemberWrite, ...]:
        return tuple(write for write in self.member_writes if write.verb == DELETE)

    @property
    def changes_nothing(self) -> bool:
        """Whether members and placements stay as they are."""
        return not self.member_writes and not self.placements


async def rehearse(
    host: Client,
    clock: Clock,
    profile: Profile,
    *,
    settings: Mapping[str, Any] | None = None,
    connect: Connect | None = None,
    quiet_seconds: float = QUIET_SECONDS,
) -> Rehearsal:
    """Run the controllers on a copy of the host. `connect` makes clients of members; default: with their Secrets."""
    load_declarations()
    copy = await copy_host(host, clock)
    client = LocalClient(copy.server)
    writes: dict[MemberWrite, None] = {}

    def read_only(cluster: Cluster) -> Client | None:
        opened = connect(cluster) if connect is not None else client_from_secret(cluster, copy.secret, refuse_write)
        return ReadOnlyMember(opened, cluster.name, writes) if opened is not None else None

    plane = ControlPlane(
        client, clock=clock, profile=profile, settings=settings, connect=read_only, check_lease=refuse_write
    )
    try:
        before = await objects_of(client)
        await plane.start()
        is_finished = await wait_until_quiet(plane, quiet_seconds)
        after = await objects_of(client)
        return Rehearsal(
            member_writes=tuple(writes),
            placements=tuple(placement_changes(before, after)),
            host_changes=tuple(host_changes(before, after)),
            not_read=tuple(unread_clusters(after)),
            left_out=copy.left_out,
            is_finished=is_finished,
        )
    finally:
        await plane.stop()
        await copy.server.stop()


def refuse_write() -> None:
    """For clients that only read: a write would be an error of the program, and must not happen."""
    raise Unavailable("nothing is written in a rehearsal")


async def wait_until_quiet(plane: ControlPlane, quiet_seconds: float) -> bool:
    """Wait until the controllers have had nothing to do for some time; False if that takes too long."""
    loop = asyncio.get_running_loop()
    deadline, quiet_since = loop.time() + LONGEST_SECONDS, loop.time()
    while loop.time() < deadline:
        if not (plane.is_ready and plane.is_idle):
            quiet_since = loop.time()
        elif loop.time() - quiet_since >= quiet_seconds:
            return True
        await asyncio.sleep(POLL_SECONDS)
    return False


ObjectsByName = dict[tuple[str, str, str], Raw]


async def objects_of(client: LocalClient) -> ObjectsByName:
    """All objects of the copy that are compared, by kind, namespace and name."""
    found: ObjectsByName = {}
    for resource in await client.resources():
        if "list" not in resource.verbs or resource.kind in IGNORED_KINDS[:2]:
            continue
        for raw in (await client.list(resource)).items:
            metadata = raw["metadata"]
            found[resource.kind, metadata.get("namespace", ""), metadata["name"]] = raw
    return found


def placement_changes(before: ObjectsByName, after: ObjectsByName) -> list[PlacementChange]:
    kinds = [kind_of(type_).name for type_ in BINDING_TYPES]
    names = sorted(name for name in {*before, *after} if name[0] in kinds)
    changes = (
        PlacementChange(
            "/".join(part for part in name[1:] if part), shares_of(before.get(name)), shares_of(after.get(name))
        )
        for name in names
    )
    return [change for change in changes if change.before != change.after]


def shares_of(binding: Raw | None) -> dict[str, int]:
    targets = ((binding or {}).get("spec") or {}).get("clusters") or ()
    return {target["name"]: target.get("replicas", 0) for target in targets}


def host_changes(before: ObjectsByName, after: ObjectsByName) -> list[str]:
    lines = []
    for kind, namespace, name in sorted({*before, *after}):
        if kind in IGNORED_KINDS:
            continue
        old, new = before.get((kind, namespace, name)), after.get((kind, namespace, name))
        place = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        if old is None or new is None:
            lines.append(f"{place}: {'deleted' if new is None else 'created'}")
        elif fields := list(changed_fields(without_server_fields(old), without_server_fields(new))):
            lines.append(f"{place}: {', '.join(fields)}")
    return lines


def unread_clusters(objects: ObjectsByName) -> list[str]:
    kind = kind_of(Cluster)
    clusters = [cast("Cluster", kind.decode(raw)) for key, raw in objects.items() if key[0] == kind.name]
    return sorted(cluster.name for cluster in clusters if not is_served_by(cluster, "") or not is_ready(cluster))
