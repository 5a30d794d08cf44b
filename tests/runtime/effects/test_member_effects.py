"""Effects in members: what is sent, what the cache of the member knows afterwards, and how failures are reported."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.controllers.contract import NOT_FETCHED, CheckAccess, Delete, Ensure, Ref
from trimtab.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from trimtab.runtime.effects.member_effects import MemberEffects, MemberFault
from trimtab.runtime.effects.object_writer import ObjectWriter
from trimtab.runtime.observers.reconcile_observers import MemberWrite, MemberWriteObserver

MAPS = Resource("", "v1", "configmaps", "ConfigMap")
REF = Ref("v1", "ConfigMap", "default", "a")


def config_map(version: str = "7", uid: str = "uid-a", **data: str) -> Raw:
    metadata = {"namespace": "default", "name": "a", "uid": uid, "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class FakeMember:
    """A member with one object; records what it is asked."""

    def __init__(self, stored: Raw | None, fault: Exception | None = None) -> None:
        self.stored, self.fault = stored, fault
        self.cached: Any = stored
        self.deletions: list[tuple[str, str]] = []
        self.listed: set[str] = set()
        self.read: list[str] = []
        self.client = self

    async def resource(self, api_version: str, kind: str) -> Resource:
        return MAPS

    def get_cached(self, ref: Ref) -> Any:
        return self.cached

    async def is_listed(self, resource: Resource, namespace: str, name: str) -> bool:
        return name in self.listed

    def put_cached(self, resource: Resource, namespace: str, name: str, raw: Raw | None) -> None:
        self.cached = raw

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        self.read.append(name)
        if self.stored is None:
            raise NotFound("there is no such object")
        return self.stored

    async def create(self, resource: Resource, body: Raw, **_: Any) -> Raw:
        if self.fault is not None:
            raise self.fault
        return body

    async def patch(self, resource: Resource, namespace: str, name: str, body: Raw, **_: Any) -> Raw:
        return await self.create(resource, body)

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, revision: str) -> None:
        self.deletions.append((uid, revision))
        if self.fault is not None:
            raise self.fault


def effects(
    member: FakeMember | None, *, exact: bool = True, observer: MemberWriteObserver | None = None
) -> MemberEffects:
    members = {} if member is None else {"m1": member}
    observers = [] if observer is None else [observer]
    state: Any = SimpleNamespace(
        profile=TRIMTAB, members=members, writes_exact_versions=exact, member_write_observers=observers
    )
    return MemberEffects(state, ObjectWriter("tester", exact_versions=exact))


def run(member: FakeMember | None, effect: Ensure | Delete, *, exact: bool = True) -> None:
    asyncio.run(effects(member, exact=exact).write("m1", effect))


def test_observers_are_told_about_what_was_written_and_what_failed() -> None:
    seen: list[MemberWrite] = []
    new = Ensure(config_map(k="v"), seen=None)
    for member, effect in (
        (FakeMember(None), new),
        (FakeMember(None, ApiError("no")), new),
        (FakeMember(config_map()), Ensure(config_map(), seen=config_map())),  # nothing differs: nothing is sent
        (FakeMember(config_map()), Delete(REF)),
        (FakeMember(config_map(), NotFound("gone")), Delete(REF)),  # somebody else has deleted it
    ):
        with contextlib.suppress(MemberFault):
            asyncio.run(effects(member, observer=seen.append).write("m1", effect))
    assert [(write.verb, write.kind, write.failed) for write in seen] == [
        ("create", "ConfigMap", False),
        ("create", "ConfigMap", True),
        ("delete", "ConfigMap", False),
    ]


def test_deletion_names_the_uid_and_the_version_that_were_seen() -> None:
    member = FakeMember(config_map())
    run(member, Delete(REF))
    assert member.deletions == [("uid-a", "7")]


def test_uid_that_the_controller_names_wins_over_the_cached_one() -> None:
    member = FakeMember(config_map())
    run(member, Delete(REF._replace(uid="uid-old")))
    assert member.deletions == [("uid-old", "7")]


def test_single_process_deletes_whatever_version_there_is() -> None:
    member = FakeMember(config_map())
    run(member, Delete(REF), exact=False)
    assert member.deletions == [("", "")]


def test_object_that_is_gone_is_remembered_as_gone() -> None:
    member = FakeMember(config_map(), NotFound("gone"))
    run(member, Delete(REF))
    assert member.cached is None


def test_conflict_reads_the_object_again_before_it_is_reported() -> None:
    member = FakeMember(config_map("8", uid="uid-new"), Conflict("another uid"))
    member.cached = config_map("7")
    with pytest.raises(MemberFault, match=r"m1: .*another uid"):
        run(member, Delete(REF))
    assert member.cached == member.stored


def test_invalid_creation_of_an_object_that_exists_reads_it_and_reports_that_it_exists() -> None:
    member = FakeMember(config_map("9"), Invalid("provided port is already allocated"))
    member.cached = None
    with pytest.raises(MemberFault) as raised:
        run(member, Ensure(seen=None, wanted=config_map("7")))
    assert isinstance(raised.value.fault, AlreadyExists)
    assert member.cached == config_map("9")


def test_invalid_creation_of_a_new_object_is_reported_as_it_is() -> None:
    with pytest.raises(MemberFault) as raised:
        run(FakeMember(None, Invalid("wrong")), Ensure(seen=None, wanted=config_map("7")))
    assert isinstance(raised.value.fault, Invalid)


def test_invalid_apply_is_reported_as_it_is() -> None:
    with pytest.raises(MemberFault) as raised:
        run(FakeMember(config_map("9"), Invalid("wrong")), Ensure(config_map("7"), apply_as="tester"))
    assert isinstance(raised.value.fault, Invalid)


def test_created_object_is_cached() -> None:
    member = FakeMember(None)
    run(member, Ensure(config_map(x="1")))
    assert member.cached["data"] == {"x": "1"}


@pytest.mark.parametrize("fault", [ApiError("no"), OSError("no route"), TimeoutError()])
def test_whatever_fails_in_a_member_names_the_cluster(fault: Exception) -> None:
    with pytest.raises(MemberFault) as raised:
        run(FakeMember(None, fault), Ensure(config_map()))
    assert raised.value.cluster == "m1"


def test_member_that_is_not_joined_is_a_fault_of_that_member() -> None:
    with pytest.raises(MemberFault, match=r"m1: .*not joined"):
        run(None, Delete(REF))


def test_fetch_caches_the_object_or_that_there_is_none() -> None:
    for stored in (config_map(), None):
        member = FakeMember(stored)
        member.cached = NOT_FETCHED
        asyncio.run(effects(member).fetch("m1", REF))
        assert member.cached == stored


def test_fetch_of_a_kind_that_is_not_served_is_no_fault() -> None:
    class WithoutKind(FakeMember):
        async def resource(self, api_version: str, kind: str) -> Resource:
            raise NotFound("not served")

    member = WithoutKind(None)
    asyncio.run(effects(member).fetch("m1", REF))
    assert member.read == []


def test_only_objects_that_the_first_list_lacks_are_read_one_by_one() -> None:
    member = FakeMember(config_map())
    member.listed = {"a"}
    asyncio.run(effects(member).fetch("m1", Ref("v1", "ConfigMap", "default", "a")))
    assert member.read == []
    asyncio.run(effects(member).fetch("m1", Ref("v1", "ConfigMap", "default", "b")))
    assert member.read == ["b"]


@pytest.mark.parametrize(("allowed", "expected"), [({"get", "update"}, True), ({"get"}, False), (set(), False)])
def test_access_is_allowed_only_if_the_member_allows_every_verb(allowed: set[str], expected: bool) -> None:
    class ReviewingMember(FakeMember):
        async def submit(self, resource: Resource, namespace: str, name: str, subresource: str, body: Raw) -> Raw:
            verb = body["spec"]["resourceAttributes"]["verb"]
            return {"status": {"allowed": True}} if verb in allowed else {}

    check = CheckAccess("m1", "system:serviceaccount:demo:deployer", REF, ("get", "update"))
    assert asyncio.run(effects(ReviewingMember(None)).is_access_allowed(check)) is expected
