"""Removes what a control plane left in a member that did not answer while it left the fleet.

A cluster that does not answer leaves when its workloads run elsewhere (`controllers/movement/cluster_departure.py`). Its Works
are gone then, and the copies in it stay. When it joins again, no Work describes them any more, so nobody would delete them.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Work
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.controllers import well_known
from trimtab.controllers.control_plane_identity import ControlPlaneIdentity
from trimtab.controllers.propagation.works.work_removal import (
    ANNOTATIONS_TO_REMOVE,
    LABELS_TO_REMOVE,
    is_orphaned_on_deletion,
)
from trimtab.errors import ApiError, Forbidden, NotFound
from trimtab.runtime.effects.foreign_objects import foreign_objects

MANAGED_SELECTOR = f"{well_known.MANAGED}=true"
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NEEDED_VERBS = {"list", "patch", "delete"}

log = logging.getLogger("trimtab.members")


class LeftObject(NamedTuple):
    resource: Resource
    raw: Raw

    @property
    def namespace(self) -> str:
        namespace: str = self.raw["metadata"].get("namespace", "")
        return namespace

    @property
    def name(self) -> str:
        name: str = self.raw["metadata"]["name"]
        return name

    @property
    def is_namespace(self) -> bool:
        return (self.resource.group, self.resource.kind) == ("", "Namespace")


async def remove_left_objects(host: Client, member: Client, identity: ControlPlaneIdentity) -> Sequence[str]:
    """Delete the objects of this control plane that have no Work; returns their names.

    An object that existed before its Work, one that its policy preserves, and a namespace with objects of others are released: they
    stay, without the marks of Trimtab. Call it only before the member serves Works again.
    """
    removed = []
    found = [left async for left in _left_objects(host, member, identity)]
    for left in sorted(found, key=lambda left: left.is_namespace):
        metadata = left.raw["metadata"]
        try:
            if await _stays(left, member):
                marks = {
                    "labels": dict.fromkeys(LABELS_TO_REMOVE),
                    "annotations": dict.fromkeys(ANNOTATIONS_TO_REMOVE),
                    "resourceVersion": metadata["resourceVersion"],
                }
                await member.patch(left.resource, left.namespace, left.name, {"metadata": marks})
            else:
                await member.delete(left.resource, left.namespace, left.name, uid=metadata["uid"])
                removed.append("/".join(part for part in (left.resource.kind, left.namespace, left.name) if part))
        except NotFound:
            continue
    return removed


async def remove_before_first_report(
    host: Client, member: Client, cluster: str, identity: ControlPlaneIdentity
) -> Sequence[str]:
    """The same for an agent, which starts often: only while its cluster has never been ready, so after it joined.

    Nobody has said to it that the control planes of the former ids no longer exist, so what they left stays.
    """
    status = (await host.get(resource_of(kind_of(Cluster)), "", cluster)).get("status") or {}
    own = ControlPlaneIdentity(identity.own)
    return [] if status.get("kubernetesVersion") else await remove_left_objects(host, member, own)


async def _left_objects(host: Client, member: Client, identity: ControlPlaneIdentity) -> AsyncIterator[LeftObject]:
    seen: set[str] = set()
    for resource in await member.resources():
        if not set(resource.verbs) >= NEEDED_VERBS:
            continue
        try:
            listed = (await member.list(resource, labels=MANAGED_SELECTOR)).items
        except ApiError as fault:  # such as an API whose own server is down
            log.warning("cannot look for objects of earlier Works", extra={"kind": resource.id, "error": str(fault)})
            continue
        for raw in listed:
            metadata = raw["metadata"]
            if (
                metadata["uid"] not in seen  # a kind may be served in several versions and groups
                and not metadata.get("deletionTimestamp")
                and identity.includes(well_known.annotations_of(raw).get(well_known.CONTROL_PLANE, ""))
                and not await _is_wanted(LeftObject(resource, raw), host)
            ):
                seen.add(metadata["uid"])
                yield LeftObject(resource, raw)


async def _is_wanted(left: LeftObject, host: Client) -> bool:
    """Whether the object has a Work, or is a namespace of the host, for which the next Work follows."""
    notes = well_known.annotations_of(left.raw)
    namespace, name = notes.get(well_known.WORK_NAMESPACE, ""), notes.get(well_known.WORK_NAME, "")
    if not namespace or not name:
        return True
    if left.is_namespace and await _may_exist(host, NAMESPACES, "", left.name):
        return True
    return await _may_exist(host, resource_of(kind_of(Work)), namespace, name)


async def _may_exist(host: Client, resource: Resource, namespace: str, name: str) -> bool:
    try:
        await host.get(resource, namespace, name)
    except NotFound:
        return False
    except Forbidden:  # an agent reads the Works of its own cluster only
        return True
    return True


async def _stays(left: LeftObject, member: Client) -> bool:
    if well_known.ADOPTED in well_known.annotations_of(left.raw) or is_orphaned_on_deletion(left.raw):
        return True
    return left.is_namespace and bool(await foreign_objects(member, left.name))
