"""Carries out the effects that a controller returned: writes to the host and to members, events, process memory.

Effects are carried out in the order in which they were yielded, and the first that fails ends the reconcile. A typed
object that exists is patched with what differs from the cached object, provided that the cached object still has the
resourceVersion from which the effect was computed; otherwise `Conflict` is raised and nothing is sent. An `Ensure` is
compared with the object that the controller saw, and its patch carries that object's resourceVersion; server-side apply
and replace send the whole object. What the API server returns goes into the cache at once, so that the next reconcile
sees it before the watch delivers it. A fault in a member is raised as `MemberFault`, so that the reconciler can name
the cluster.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.value import Key, Object, Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.controllers.contract import (
    CheckAccess,
    Controller,
    Delete,
    Effect,
    Ensure,
    Fetch,
    FindForeignObjects,
    InCluster,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    WriteSequence,
)
from trimtab.controllers.well_known import ref_of
from trimtab.errors import AlreadyExists, ApiError, Conflict, NotFound
from trimtab.runtime.cache import Table
from trimtab.runtime.commit import Write, difference, is_same_in_patched_fields, with_version, writes_for
from trimtab.runtime.foreign_objects import foreign_objects
from trimtab.runtime.view import ControlPlaneState, MemberAccess

MAX_PATCH_ATTEMPTS = 4
"""Attempts to finish a write of several patches after its first patch was accepted."""
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)


class MemberFault(Exception):
    """A fault of a member cluster's API server."""

    def __init__(self, cluster: str, fault: ApiError) -> None:
        super().__init__(f"{cluster}: {fault}")
        self.cluster = cluster
        self.fault = fault


@contextmanager
def member_faults(cluster: str) -> Iterator[None]:
    """Raise whatever fails in the block as a `MemberFault` of this cluster."""
    try:
        yield
    except ApiError as fault:
        raise MemberFault(cluster, fault) from fault
    except (OSError, TimeoutError) as fault:
        raise MemberFault(cluster, ApiError(str(fault) or type(fault).__name__)) from fault


class EffectExecutor:
    """Carries out the effects of one controller and counts its writes."""

    def __init__(self, controller: Controller, state: ControlPlaneState, requeue: Callable[[Key], None]) -> None:
        """`requeue` adds a key to the controller's queue: the key of a read is reconciled again with the result."""
        self._controller = controller
        self._state = state
        self._requeue = requeue
        self.writes = 0

    async def execute_all(self, key: Key, effects: list[Effect]) -> None:
        """Carry out the effects in their order; consecutive new objects of one kind in one request where possible."""
        for type_, group in itertools.groupby(effects, _type_to_create):
            batch = list(group)
            if type_ is None or len(batch) == 1 or not await self._create_together(type_, cast("list[Object]", batch)):
                for effect in batch:
                    await self._execute(key, effect)

    async def _execute(self, key: Key, effect: Effect) -> None:
        match effect:
            case RequeueAfter():
                return
            case RecordEvent():
                self._state.recorder.record(effect, self._state.clock.now())
            case RememberInProcess(topic, at, value):
                self._state.remember(key, topic, at, value)
            case InCluster(cluster, inner):
                await self._execute_in_cluster(cluster, inner)
            case Fetch(cluster, ref):
                await self._fetch(cluster, ref)
                self._requeue(key)
            case CheckAccess():
                allowed = (self._state.steady_clock.now(), await self._is_access_allowed(effect))
                self._state.remember(key, "allowed", effect, allowed)
                self._requeue(key)
            case FindForeignObjects(cluster, namespace):
                with member_faults(cluster):
                    found = await foreign_objects(self._member(cluster).client, namespace)
                self._state.remember(key, "foreign objects", effect, (self._state.clock.now(), found))
                self._requeue(key)
            case Ensure():
                await self._ensure(self._state.client, effect)
            case Delete():
                await self._delete(effect)
            case WriteSequence(steps):
                await self._write(*steps)
            case _:
                await self._write(effect)

    @property
    def _field_manager(self) -> str:
        return f"trimtab-{self._controller.name}"

    async def _create_together(self, type_: type[Object], wanted: Sequence[Object]) -> bool:
        """Create the objects in one request; `False` if the client cannot, or an object has a status."""
        table = self._state.cache.table_of(type_)
        bodies = [to_wire(obj) for obj in wanted]
        if any(body.get("status") for body in bodies):
            return False  # a status is written by a second request, after the create
        created = await self._state.client.create_together(table.resource, bodies, manager=self._field_manager)
        for obj in created or ():
            self.writes += 1
            table.put(obj)
        return created is not None

    async def _write(self, wanted: Object, *further: Object) -> None:
        """Create a typed object or patch what differs; then patch what differs in each further state, in order."""
        kind = kind_of(wanted)
        table = self._state.cache.table(resource_of(kind))
        entry = table.entries.get((wanted.metadata.namespace, wanted.metadata.name))
        if entry is None or not wanted.metadata.resource_version:
            await self._create(table, wanted)
            return
        cached = entry.typed
        if entry.revision != wanted.metadata.resource_version:
            raise Conflict("the object has changed since it was read", kind=kind.plural, name=wanted.metadata.name)
        latest = entry.raw
        states = zip((cached, wanted, *further), (wanted, *further), strict=False)
        for write in (write for before, after in states for write in self._writes_between(before, after, entry.raw)):
            latest = await self._patch(table, latest, write, begun=latest is not entry.raw)

    def _writes_between(self, before: Object, after: Object, raw: Raw) -> Iterator[Write]:
        whole = self._state.client.takes_status
        return writes_for(before, after, raw, self._controller.writes, self._controller.subjects, whole=whole)

    async def _patch(self, table: Table, latest: Raw, write: Write, *, begun: bool) -> Raw:
        """Send one patch of a write.

        Once the first patch of a write was accepted (`begun`), a conflict with somebody who changed other fields must
        not leave the write half done: the events that follow it would never be recorded, and the next reconcile would
        find nothing left to do.
        """
        for _ in range(MAX_PATCH_ATTEMPTS if begun else 1):
            try:
                patched = await self._send_patch(table.resource, latest, write)
            except Conflict:
                if not begun:
                    raise
                metadata = latest["metadata"]
                newer = await self._state.client.get(table.resource, metadata.get("namespace", ""), metadata["name"])
                table.put(newer)
                if not is_same_in_patched_fields(write.patch, latest, newer):
                    raise
                latest = newer
            else:
                table.put(patched)
                return patched
        raise Conflict(
            "other clients keep changing this object", kind=table.resource.plural, name=latest["metadata"]["name"]
        )

    async def _send_patch(self, resource: Resource, latest: Raw, write: Write) -> Raw:
        metadata = latest["metadata"]
        self.writes += 1
        return await self._state.client.patch(
            resource,
            metadata.get("namespace", ""),
            metadata["name"],
            with_version(write.patch, metadata["resourceVersion"]),
            subresource=write.subresource,
            manager=self._field_manager,
            typed=True,
        )

    async def _create(self, table: Table, wanted: Object) -> None:
        body = to_wire(wanted)
        status = body.get("status")
        self.writes += 1
        created = await self._state.client.create(table.resource, body, manager=self._field_manager, typed=True)
        table.put(created)
        if status and kind_of(wanted).status:
            table.put(await self._send_patch(table.resource, created, Write("status", {"status": status})))

    async def _ensure(self, client: Client, effect: Ensure) -> None:
        """Make an object of any kind on the host as wanted."""
        resource = self._state.resource(effect.wanted["apiVersion"], effect.wanted["kind"])
        if resource is None:
            raise NotFound(f"the host does not serve {effect.wanted['apiVersion']} {effect.wanted['kind']}")
        written = await self._send(client, resource, effect)
        table = self._state.cache.find_table(resource.id)
        if table is not None and written is not None:
            table.put(written)

    async def _send(self, client: Client, resource: Resource, effect: Ensure) -> Raw | None:
        """Apply, create, replace or patch the object; `None` if nothing differs."""
        metadata = effect.wanted["metadata"]
        namespace = metadata.get("namespace", "")
        if effect.apply_as:
            self.writes += 1
            return await client.patch(
                resource,
                namespace,
                metadata["name"],
                effect.wanted,
                type="apply",
                manager=effect.apply_as,
                force=effect.force,
            )
        if effect.seen is None:
            self.writes += 1
            return await client.create(resource, effect.wanted, manager=self._field_manager)
        if effect.replace:
            self.writes += 1
            return await client.replace(
                resource, effect.wanted, subresource=effect.subresource, manager=self._field_manager
            )
        patch = difference(effect.seen, effect.wanted)
        if not patch:
            return None
        self.writes += 1
        return await client.patch(
            resource,
            namespace,
            metadata["name"],
            with_version(patch, effect.seen["metadata"].get("resourceVersion", "")),
            subresource=effect.subresource,
            manager=self._field_manager,
        )

    async def _delete(self, effect: Delete) -> None:
        ref = _ref_of_target(effect)
        resource = self._state.resource(ref.api_version, ref.kind)
        if resource is None:
            return
        self.writes += 1
        try:
            await self._state.client.delete(resource, ref.namespace, ref.name, uid=ref.uid, revision=effect.revision)
        except NotFound:
            table = self._state.cache.find_table(resource.id)
            if table is not None:
                table.drop((ref.namespace, ref.name))

    def _member(self, cluster: str) -> MemberAccess:
        member = self._state.members.get(cluster)
        if member is None:
            raise NotFound(f"cluster {cluster} is not joined")
        return member

    async def _execute_in_cluster(self, cluster: str, effect: Ensure | Delete) -> None:
        with member_faults(cluster):
            if isinstance(effect, Ensure):
                await self._ensure_in_member(self._member(cluster), effect)
            else:
                await self._delete_in_member(self._member(cluster), effect)

    async def _ensure_in_member(self, member: MemberAccess, effect: Ensure) -> None:
        resource = await member.resource(effect.wanted["apiVersion"], effect.wanted["kind"])
        metadata = effect.wanted["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        try:
            written = await self._send(member.client, resource, effect)
        except (AlreadyExists, Conflict):
            member.put_cached(resource, namespace, name, await member.client.get(resource, namespace, name))
            raise
        except NotFound:
            if effect.seen is not None:
                member.put_cached(resource, namespace, name, None)
            raise
        if written is not None:
            member.put_cached(resource, namespace, name, written)

    async def _delete_in_member(self, member: MemberAccess, effect: Delete) -> None:
        ref = _ref_of_target(effect)
        resource = await member.resource(ref.api_version, ref.kind)
        self.writes += 1
        try:
            await member.client.delete(resource, ref.namespace, ref.name, uid=ref.uid, revision=effect.revision)
        except NotFound:
            member.put_cached(resource, ref.namespace, ref.name, None)

    async def _fetch(self, cluster: str, ref: Ref) -> None:
        """Read an object from a member into the member's cache."""
        with member_faults(cluster):
            member = self._member(cluster)
            resource = await member.resource(ref.api_version, ref.kind)
            try:
                found = await member.client.get(resource, ref.namespace, ref.name)
                member.put_cached(resource, ref.namespace, ref.name, found)
            except NotFound:
                member.put_cached(resource, ref.namespace, ref.name, None)

    async def _is_access_allowed(self, effect: CheckAccess) -> bool:
        """Whether the member allows the user every verb on the object."""
        with member_faults(effect.cluster):
            member = self._member(effect.cluster)
            resource = await member.resource(effect.ref.api_version, effect.ref.kind)
            for verb in effect.verbs:
                review = await member.client.submit(ACCESS_REVIEWS, "", "", "", access_review(effect, resource, verb))
                if not (review.get("status") or {}).get("allowed"):
                    return False
        return True


def access_review(effect: CheckAccess, resource: Resource, verb: str) -> Raw:
    """The SubjectAccessReview for one verb."""
    account = effect.user.removeprefix("system:serviceaccount:").partition(":")[0]
    return {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": ACCESS_REVIEWS.kind,
        "spec": {
            "user": effect.user,
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{account}", "system:authenticated"],
            "resourceAttributes": {
                "verb": verb,
                "group": resource.group,
                "version": resource.version,
                "resource": resource.plural,
                "namespace": effect.ref.namespace if resource.namespaced else "",
                "name": effect.ref.name,
            },
        },
    }


def _ref_of_target(effect: Delete) -> Ref:
    return effect.target if isinstance(effect.target, Ref) else ref_of(effect.target)


def _type_to_create(effect: Effect) -> type[Object] | None:
    """The type of an object that does not exist yet; `None` for every other effect."""
    return type(effect) if isinstance(effect, Object) and not effect.metadata.resource_version else None
