"""Reads and writes in member clusters. What fails there is raised as `MemberFault`, which names the cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.controllers.contract import CheckAccess, Delete, Ensure, ReadPodUse, Ref
from trimtab.decide.autoscale import PodSample
from trimtab.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from trimtab.runtime.effects.foreign_objects import foreign_objects
from trimtab.runtime.effects.object_writer import ObjectWriter, target_of
from trimtab.runtime.effects.pod_use import pod_use
from trimtab.runtime.observers.reconcile_observers import MemberWrite
from trimtab.runtime.view import ControlPlaneState, MemberAccess

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


class MemberEffects:
    """Carries out effects in members, for one controller; what was read or written goes into the member's cache."""

    def __init__(self, state: ControlPlaneState, writer: ObjectWriter) -> None:
        self._state = state
        self._writer = writer

    def _member(self, cluster: str) -> MemberAccess:
        member = self._state.members.get(cluster)
        if member is None:
            raise NotFound(f"cluster {cluster} is not joined")
        return member

    async def follow(self, cluster: str, api_version: str, kind: str) -> None:
        """List and watch all objects of a kind in the member from now on."""
        with member_faults(cluster):
            await self._member(cluster).follow(api_version, kind)

    async def write(self, cluster: str, effect: Ensure | Delete) -> bool:
        """Ensure or delete an object in the member; whether that changed it, so that an event will follow."""
        try:
            with member_faults(cluster):
                if isinstance(effect, Ensure):
                    written = await self._ensure(self._member(cluster), effect)
                    has_written, has_changed = written is not None, is_changed(effect.seen, written)
                else:
                    has_written = has_changed = await self._delete(self._member(cluster), effect)
        except MemberFault:
            self._report(cluster, effect, failed=True)
            raise
        if has_written:
            self._report(cluster, effect, failed=False)
        return has_changed

    def _report(self, cluster: str, effect: Ensure | Delete, *, failed: bool) -> None:
        if not self._state.member_write_observers:
            return
        if isinstance(effect, Ensure):
            verb: Literal["create", "update", "delete"] = "create" if effect.seen is None else "update"
            write = MemberWrite(verb, cluster, effect.wanted["apiVersion"], effect.wanted["kind"], failed)
        else:
            ref = target_of(effect)
            write = MemberWrite("delete", cluster, ref.api_version, ref.kind, failed)
        for observer in self._state.member_write_observers:
            observer(write)

    async def _ensure(self, member: MemberAccess, effect: Ensure) -> Raw | None:
        """The object as written; `None` if it differs in nothing, and was not sent."""
        resource = await member.resource(effect.wanted["apiVersion"], effect.wanted["kind"])
        metadata = effect.wanted["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        try:
            written = await self._writer.ensure(member.client, resource, effect)
        except (AlreadyExists, Conflict):
            member.put_cached(resource, namespace, name, await member.client.get(resource, namespace, name))
            raise
        except Invalid as fault:
            # A Service with the ports or addresses of the one that exists is invalid before it is found to exist.
            is_creation = effect.seen is None and not effect.apply_as
            if not is_creation or not await self._exists(member, resource, namespace, name):
                raise
            raise AlreadyExists(str(fault)) from fault
        except NotFound:
            if effect.seen is not None:
                member.put_cached(resource, namespace, name, None)
            raise
        if written is not None:
            member.put_cached(resource, namespace, name, written)
        return written

    async def _exists(self, member: MemberAccess, resource: Resource, namespace: str, name: str) -> bool:
        """Read an object into the member's cache; whether there is one."""
        try:
            found = await member.client.get(resource, namespace, name)
        except NotFound:
            return False
        member.put_cached(resource, namespace, name, found)
        return True

    async def _delete(self, member: MemberAccess, effect: Delete) -> bool:
        """Whether anything was deleted: another one may have done so before."""
        ref = target_of(effect)
        resource = await member.resource(ref.api_version, ref.kind)
        seen = member.get_cached(ref) if self._state.writes_exact_versions else None
        metadata = seen["metadata"] if isinstance(seen, dict) else {}
        ref = ref._replace(uid=ref.uid or metadata.get("uid", ""))
        revision = effect.revision or metadata.get("resourceVersion", "")
        try:
            await self._writer.delete(member.client, resource, ref, revision)
        except NotFound:
            member.put_cached(resource, ref.namespace, ref.name, None)
            return False
        except Conflict:
            found = await member.client.get(resource, ref.namespace, ref.name)
            member.put_cached(resource, ref.namespace, ref.name, found)
            raise
        return True

    async def fetch(self, cluster: str, ref: Ref) -> None:
        """Read an object from a member into the member's cache."""
        with member_faults(cluster):
            member = self._member(cluster)
            try:
                resource = await member.resource(ref.api_version, ref.kind)
            except NotFound:
                return  # there are no objects of a kind that is not served, and the member remembers that it is not
            if self._state.profile.silent_restarts and await member.is_listed(resource, ref.namespace, ref.name):
                return
            try:
                found = await member.client.get(resource, ref.namespace, ref.name)
                member.put_cached(resource, ref.namespace, ref.name, found)
            except NotFound:
                member.put_cached(resource, ref.namespace, ref.name, None)

    async def is_access_allowed(self, effect: CheckAccess) -> bool:
        """Whether the member allows the user every verb on the object."""
        with member_faults(effect.cluster):
            member = self._member(effect.cluster)
            resource = await member.resource(effect.ref.api_version, effect.ref.kind)
            for verb in effect.verbs:
                review = await member.client.submit(ACCESS_REVIEWS, "", "", "", access_review(effect, resource, verb))
                if not (review.get("status") or {}).get("allowed"):
                    return False
        return True

    async def foreign_objects(self, cluster: str, namespace: str) -> tuple[str, ...]:
        """Some of the objects in the namespace that would be lost with it."""
        with member_faults(cluster):
            return await foreign_objects(self._member(cluster).client, namespace)

    async def read_pod_use(self, effect: ReadPodUse) -> tuple[PodSample, ...]:
        """The pods and their use; none in a member that this process cannot read, such as a Pull member."""
        cluster = effect.cluster
        try:
            with member_faults(cluster):
                client = self._member(cluster).client if cluster else self._state.client
                return await pod_use(client, effect.namespace, effect.selector)
        except MemberFault:
            return ()


def is_changed(seen: Raw | None, written: Raw | None) -> bool:
    """Whether the server made another version of the object."""
    if seen is None or written is None:
        return written is not None
    return bool(written["metadata"].get("resourceVersion") != seen["metadata"].get("resourceVersion"))


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
