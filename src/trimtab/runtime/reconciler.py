"""One beat of one controller: take a key, build the View, call the pure function, carry out its wishes."""

import asyncio
import itertools
import logging
from collections.abc import Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from trimtab.api.kind import find_kind, key_of, kind_of, wire
from trimtab.api.profile import PROFILES, Profile
from trimtab.api.value import Key, Object, Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.clock import Clock
from trimtab.controllers.contract import (
    UNSEEN,
    Again,
    Controller,
    Fault,
    Gone,
    Index,
    Inquire,
    Look,
    Make,
    Note,
    Ref,
    Remember,
    Steps,
    Unseen,
    Wake,
    Wish,
    Within,
    never,
    same_rank,
)
from trimtab.controllers.well_known import PROFILE, annotations_of, home_of
from trimtab.errors import AlreadyExists, ApiFault, Conflict, NotFound
from trimtab.runtime.cache import Cache, Entry, Table
from trimtab.runtime.commit import Write, alike_where, difference, with_version, writes_for
from trimtab.runtime.event_recorder import Recorder
from trimtab.runtime.process_memory import Memory
from trimtab.runtime.queue import WorkQueue

T = TypeVar("T", bound=Object)
Thought: TypeAlias = tuple[Key, list[Wish] | Exception]
"""A key, and what is wished for it, or the defect that kept the controller from wishing."""
BEGUN_ATTEMPTS = 4
PARALLEL = 16
PARALLEL_AFAR = 64
"""How many keys of a controller may wait for their writes at once: more where the writes go to members, which answer later."""
BEATS_IN_A_ROW = 8
"""After so many beats without a write, others have their turn."""
NAMESPACES = "namespaces"
REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
CONTROLLER: ContextVar[str] = ContextVar("controller", default="")
"""The name of the controller that the running task works for; tasks inherit it from the one that starts them."""
log = logging.getLogger("trimtab.beat")


class Member(Protocol):
    """A member cluster as the beat reaches it: its client, and what was last seen there."""

    @property
    def client(self) -> Client: ...

    def seen(self, ref: Ref) -> Raw | Unseen | None: ...

    async def resource(self, api_version: str, kind: str) -> Resource: ...

    def learn(self, resource: Resource, namespace: str, name: str, raw: Raw | None) -> None:
        """Take in what a read or a write has just shown; None: it does not exist."""
        ...


class Members(Protocol):
    def get(self, cluster: str) -> Member | None: ...


class Surroundings:
    """What every beat of one control plane shares."""

    def __init__(
        self,
        *,
        cache: Cache,
        clock: Clock,
        profile: Profile,
        members: Members,
        settings: Mapping[str, Any] | None = None,
        parts: Mapping[str, Any] | None = None,
    ) -> None:
        self.cache = cache
        self.client = cache.client
        self.clock = clock
        self.profile = profile
        self.members = members
        self.settings: Mapping[str, Any] = settings or {}
        self.parts: dict[str, Any] = dict(parts or {})
        self.memory = Memory()
        self.recorder = Recorder(cache.client)
        self.resources: dict[tuple[str, str], Resource] = {}
        self._profiles: dict[str, Profile] = {}
        self._profiles_at = -1

    def profile_in(self, namespace: str) -> Profile:
        """The profile that a namespace asks for; ours where it asks for none, or for one that nobody knows."""
        table = self.cache.known(NAMESPACES) if namespace else None
        if table is None:
            return self.profile
        if self._profiles_at != table.changes:
            self._profiles, self._profiles_at = {}, table.changes
        found = self._profiles.get(namespace)
        if found is None:
            entry = table.entries.get(("", namespace))
            wanted = annotations_of(entry.raw).get(PROFILE, "") if entry is not None else ""
            found = self._profiles[namespace] = PROFILES.get(wanted, self.profile)
        return found

    def resource(self, api_version: str, kind: str) -> Resource | None:
        """Where objects of this apiVersion and kind live on the host."""
        if found := self.resources.get((api_version, kind)):
            return found
        declared = find_kind(api_version, kind)
        return resource_of(declared) if declared else None


class LiveView:
    """The View of one beat: the cache as it stands, at one moment, for one key."""

    __slots__ = ("_around", "_now", "fault", "profile")

    def __init__(self, around: Surroundings, fault: Fault | None = None, profile: Profile | None = None) -> None:
        self._around = around
        self._now: datetime | None = None
        self.fault = fault
        self.profile = profile or around.profile

    @property
    def now(self) -> datetime:
        """The moment of the first look at the clock; most who are woken never look."""
        if self._now is None:
            self._now = self._around.clock.now()
        return self._now

    @property
    def settings(self) -> Mapping[str, Any]:
        return self._around.settings

    def get(self, type_: type[T], namespace: str, name: str) -> T | None:
        entry = self._around.cache.table_of(type_).entries.get((namespace, name))
        return cast("T", entry.typed) if entry else None

    def all(self, type_: type[T], namespace: str | None = None) -> Sequence[T]:
        table = self._around.cache.table_of(type_)
        return [
            cast("T", table.entries[name].typed) for name in table.names() if namespace is None or name[0] == namespace
        ]

    def having(self, index: Index[T], value: str) -> Sequence[T]:
        return self._around.cache.table_of(index.type).having(index, value)

    def raw(self, ref: Ref) -> Raw | None:
        table = self._table(ref.api_version, ref.kind)
        entry = table.entries.get((ref.namespace, ref.name)) if table else None
        return entry.raw if entry else None

    def raws(self, api_version: str, kind: str, namespace: str | None = None) -> Sequence[Raw]:
        table = self._table(api_version, kind)
        if table is None:
            return ()
        return [table.entries[name].raw for name in table.names() if namespace is None or name[0] == namespace]

    def _table(self, api_version: str, kind: str) -> Table | None:
        resource = self._around.resource(api_version, kind)
        return self._around.cache.known(resource.id) if resource else None

    def member(self, cluster: str, ref: Ref) -> Raw | Unseen | None:
        member = self._around.members.get(cluster)
        return member.seen(ref) if member else UNSEEN

    def key(self, ref: Ref) -> Key | None:
        resource = self._around.resource(ref.api_version, ref.kind)
        return Key(resource.id, ref.namespace, ref.name) if resource else None

    def part(self, name: str) -> Any:
        return self._around.parts[name]

    def recall(self, topic: str, key: Hashable) -> Any:
        return self._around.memory.get((topic, key))


class Onlooker(LiveView):
    """The View of those who only ask whom a change concerns: one for all changes, so its moment is always this one."""

    __slots__ = ()

    @property
    def now(self) -> datetime:
        return self._around.clock.now()


class Beat:
    """Runs one controller: its queue, its wakes, and the writing of its wishes."""

    def __init__(self, controller: Controller, around: Surroundings) -> None:
        self.controller = controller
        self._around = around
        self._parallel = 1 if controller.alone else PARALLEL_AFAR if controller.member_wakes else PARALLEL
        self._faults: dict[Key, Fault] = {}
        self.queue: WorkQueue[Key] = WorkQueue(None if controller.priority is same_rank else self._rank)
        self._onlooker = Onlooker(around)
        self.beats = 0
        self.writes = 0

    def _rank(self, key: Key) -> int:
        found = self._find(key)
        return self.controller.priority(found.value) if found else 0

    def _find(self, key: Key) -> Entry | None:
        table = self._around.cache.known(key.kind)
        return table.entries.get((key.namespace, key.name)) if table else None

    def _view_of(self, key: Key, found: Entry | None) -> LiveView:
        return LiveView(self._around, self._faults.get(key), self._profile_in(key, found))

    def _profile_in(self, key: Key, found: Entry | None) -> Profile:
        return self._around.profile_in(home_of(found.raw) if found is not None else key.namespace)

    def watch(self) -> None:
        """Start listening: to the subject, and to whatever else wakes this controller."""
        if not self.controller.subjects:
            self._around.cache.follow(self._follow_template_table)
        for subject in self.controller.subjects:
            table = self._around.cache.table_of(subject)
            if self.controller.changed is not never or self.controller.gone is not None:
                table.listen(partial(self._subject_changed, table.resource.id))
        for wake in self.controller.wakes:
            self._around.cache.table_of(wake.type).listen(partial(self._other_changed, wake))

    def _other_changed(self, wake: Wake, old: Entry | None, new: Entry | None) -> None:
        self._wake(wake.keys(old.typed if old else None, new.typed if new else None, self._onlooker))

    def look_at_everything(self) -> None:
        """Every subject deserves a beat, whatever changed or not."""
        tables = (
            [self._around.cache.table_of(subject) for subject in self.controller.subjects]
            if self.controller.subjects
            else [t for t in self._around.cache.tables() if self._is_template_table(t)]
        )
        for table in tables:
            for name in table.names():
                self.queue.add(Key(table.resource.id, *name))

    def _is_template_table(self, table: Table) -> bool:
        return (table.resource.api_version, table.resource.kind) in self._around.resources

    def _follow_template_table(self, table: Table) -> None:
        if self._is_template_table(table):
            table.listen(partial(self._subject_changed, table.resource.id))

    def _subject_changed(self, id_: str, old: Entry | None, new: Entry | None) -> None:
        if new is None:
            if self.controller.gone is not None:
                self.queue.add(Key(id_, *cast("Entry", old).name))
        elif self.controller.changed(_subject(old, self.controller), _subject(new, self.controller)):
            self.queue.add(Key(id_, *new.name))

    def member_changed(self, cluster: str, old: Raw | None, new: Raw | None) -> None:
        for wake in self.controller.member_wakes:
            self._wake(wake.keys(cluster, old, new, self._onlooker))

    def _wake(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.queue.add(key)

    async def run(self) -> None:
        """Think for ever; several keys may be waiting for their writes at once, no key twice."""
        CONTROLLER.set(self.controller.name)
        running: set[asyncio.Task[None]] = set()
        ended = asyncio.Event()

        def finished(task: asyncio.Task[None]) -> None:
            running.discard(task)
            ended.set()

        try:
            for beats in itertools.count(1):
                while len(running) >= self._parallel:
                    ended.clear()
                    await ended.wait()
                keys = await self.queue.take(self.controller.batch)
                thoughts = [thought for thought in self._think(keys) if not self._is_done(*thought)]
                if thoughts:
                    task = asyncio.get_running_loop().create_task(self._carried_out(thoughts))
                    running.add(task)
                    task.add_done_callback(finished)
                elif beats % BEATS_IN_A_ROW == 0:
                    await asyncio.sleep(0)  # others have their turn, however many keys need nothing
        finally:
            for task in running:
                task.cancel()

    def _think(self, keys: list[Key]) -> list[Thought]:
        """Call the pure function; a defect in it costs this key a retry, never the loop its life."""
        self.beats += len(keys)
        try:
            if self.controller.batch > 1:
                return self._think_together(keys)
        except Exception as defect:  # noqa: BLE001 - one of the two places that catch everything
            return [(key, defect) for key in keys]
        return [(key, self._think_alone(key)) for key in keys]

    def _think_alone(self, key: Key) -> list[Wish] | Exception:
        found = self._find(key)
        try:
            if found is None:
                self._faults.pop(key, None)
                return list(self.controller.gone(key, self._view_of(key, None))) if self.controller.gone else []
            view = self._view_of(key, found)
            wishes = self.controller.reconcile(_subject(found, self.controller), view)
            return list(wishes) if view.profile.tell_routine else [wish for wish in wishes if not _is_routine(wish)]
        except Exception as defect:  # noqa: BLE001 - one of the two places that catch everything
            return defect

    def _think_together(self, keys: list[Key]) -> list[Thought]:
        wishes: dict[Key, list[Wish]] = {key: [] for key in keys}
        together: dict[str, tuple[Profile, list[Any]]] = {}
        by_subject = {}
        for key in keys:
            if found := self._find(key):
                subject = _subject(found, self.controller)
                by_subject[id(subject)] = key
                profile = self._profile_in(key, found)
                together.setdefault(profile.name, (profile, []))[1].append(subject)
        for profile, subjects in together.values():
            view = LiveView(self._around, profile=profile)
            for subject, wish in cast("Any", self.controller.reconcile(subjects, view)):
                if profile.tell_routine or not _is_routine(wish):
                    wishes[by_subject[id(subject)]].append(wish)
        return list(wishes.items())

    def _is_done(self, key: Key, wishes: list[Wish] | Exception) -> bool:
        """Whether nothing is to be written, or only later: no task is needed for that.

        What is to be remembered before anything is written is remembered now: the next thought comes before the first
        write does, and has to know of the slot or the room that was given away.
        """
        if isinstance(wishes, Exception):
            return False
        while wishes and isinstance(wishes[0], Remember):
            self._around.memory.keep(*cast("Remember", wishes.pop(0)))
        if not all(isinstance(wish, Again) for wish in wishes):
            return False
        self._book(key, wishes)
        self.queue.done(key)
        return True

    def _book(self, key: Key, wishes: list[Wish]) -> None:
        """All went well; think again when it was asked for."""
        self._faults.pop(key, None)
        self.queue.succeeded(key)
        again = [wish.seconds for wish in wishes if isinstance(wish, Again)]
        if again:
            self.queue.add_after(key, min(again))

    def _carried_out(self, thoughts: list[Thought]) -> Coroutine[Any, Any, None]:
        return self._settle(*thoughts[0]) if len(thoughts) == 1 else self._settle_all(thoughts)

    async def _settle_all(self, thoughts: list[Thought]) -> None:
        await asyncio.gather(*(self._settle(*thought) for thought in thoughts))

    async def _settle(self, key: Key, wishes: list[Wish] | Exception) -> None:
        """Write one key's wishes, and book how it went."""
        if isinstance(wishes, Exception):
            log.error("%s failed on %s", self.controller.name, key, exc_info=wishes)
            self.queue.retry(key)
            self.queue.done(key)
            return
        try:
            await self._grant_all(key, wishes)
            self._book(key, wishes)
        except Conflict as conflict:
            log.debug("%s thinks again about %s: %s", self.controller.name, key, conflict)
            self.queue.retry(key)
        except Elsewhere as failed:
            self._remember(key, failed.fault, failed.cluster)
        except ApiFault as fault:
            self._remember(key, fault, "")
        except (OSError, TimeoutError) as fault:
            log.warning("%s: cannot reach the API server for %s: %s", self.controller.name, key, fault)
            self.queue.retry(key)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("%s failed on %s", self.controller.name, key)
            self.queue.retry(key)
        finally:
            self.queue.done(key)

    def _remember(self, key: Key, fault: ApiFault, cluster: str) -> None:
        """Let the next beat, which comes at once the first time, see what went wrong."""
        earlier = self._faults.get(key)
        self._faults[key] = Fault(
            fault.code, fault.reason, fault.message, cluster, (earlier.attempts if earlier else 0) + 1
        )
        if fault.retry_after:
            self.queue.add_after(key, fault.retry_after)
        else:
            self.queue.retry(key)

    async def _grant_all(self, key: Key, wishes: list[Wish]) -> None:
        """In their order; several new objects of a kind in one step, where that can be."""
        for type_, wished in itertools.groupby(wishes, _type_to_create):
            alike = list(wished)
            if type_ is None or len(alike) == 1 or not await self._create_together(type_, cast("list[Object]", alike)):
                for wish in alike:
                    await self._grant(key, wish)

    async def _create_together(self, type_: type[Object], wished: Sequence[Object]) -> bool:
        table = self._around.cache.table_of(type_)
        bodies = [wire(one) for one in wished]
        if any(body.get("status") for body in bodies):
            return False  # the status is said after the birth
        made = await self._around.client.create_together(table.resource, bodies, manager=self._manager)
        for answer in made or ():
            self.writes += 1
            table.put(answer)
        return made is not None

    async def _grant(self, key: Key, wish: Wish) -> None:
        match wish:
            case Again():
                return
            case Note():
                self._around.recorder.tell(wish, self._around.clock.now())
            case Remember(topic, at, value):
                self._around.memory.keep(topic, at, value)
            case Within(cluster, inner):
                await self._grant_within(cluster, inner)
            case Look(cluster, ref):
                await self._look(cluster, ref)
                self.queue.add(key)
            case Inquire():
                self._around.memory.keep("allowed", wish, (self._around.clock.now(), await self._inquire(wish)))
                self.queue.add(key)
            case Make():
                await self._make(self._around.client, wish)
            case Gone():
                await self._remove(wish)
            case Steps(steps):
                await self._write(*steps)
            case _:
                await self._write(wish)

    async def _write(self, wished: Object, *further: Object) -> None:
        """A typed object should be so: create it, or send what differs; then what differs of each further step."""
        kind = kind_of(wished)
        resource = resource_of(kind)
        table = self._around.cache.table(resource)
        entry = table.entries.get((wished.metadata.namespace, wished.metadata.name))
        if entry is None or not wished.metadata.resource_version:
            await self._create(table, wished)
            return
        seen = entry.typed
        if entry.revision != wished.metadata.resource_version:
            raise Conflict("the object has changed since it was looked at", kind=kind.plural, name=wished.metadata.name)
        latest = entry.raw
        steps = zip((seen, wished, *further), (wished, *further), strict=False)
        for write in (write for before, after in steps for write in self._differences(before, after, entry.raw)):
            latest = await self._patch(table, latest, write, begun=latest is not entry.raw)

    async def _patch(self, table: Table, latest: Raw, write: Write, *, begun: bool) -> Raw:
        """Send one write of a wish.

        Once a wish is begun, a neighbour who wrote other fields in between must not leave it half done: nobody would
        hear the notes that follow, and the next beat would find nothing left to do.
        """
        for _ in range(BEGUN_ATTEMPTS if begun else 1):
            try:
                answer = await self._send_patch(table.resource, latest, write)
            except Conflict:
                if not begun:
                    raise
                metadata = latest["metadata"]
                newer = await self._around.client.get(table.resource, metadata.get("namespace", ""), metadata["name"])
                table.put(newer)
                if not alike_where(write.patch, latest, newer):
                    raise
                latest = newer
            else:
                table.put(answer)
                return answer
        raise Conflict("others keep writing this object", kind=table.resource.plural, name=latest["metadata"]["name"])

    async def _send_patch(self, resource: Resource, latest: Raw, write: Write) -> Raw:
        metadata = latest["metadata"]
        self.writes += 1
        return await self._around.client.patch(
            resource,
            metadata.get("namespace", ""),
            metadata["name"],
            with_version(write.patch, metadata["resourceVersion"]),
            subresource=write.subresource,
            manager=self._manager,
            typed=True,
        )

    def _differences(self, before: Object, after: Object, raw: Raw) -> Iterator[Write]:
        whole = self._around.client.takes_status
        return writes_for(before, after, raw, self.controller.writes, self.controller.subjects, whole=whole)

    @property
    def _manager(self) -> str:
        return f"trimtab-{self.controller.name}"

    async def _create(self, table: Table, wished: Object) -> None:
        body = wire(wished)
        status = body.get("status")
        self.writes += 1
        made = await self._around.client.create(table.resource, body, manager=self._manager, typed=True)
        table.put(made)
        if status and kind_of(wished).status:
            self.writes += 1
            patch = with_version({"status": status}, made["metadata"]["resourceVersion"])
            metadata = made["metadata"]
            table.put(
                await self._around.client.patch(
                    table.resource,
                    metadata.get("namespace", ""),
                    metadata["name"],
                    patch,
                    subresource="status",
                    manager=self._manager,
                    typed=True,
                )
            )

    async def _make(self, client: Client, wish: Make) -> None:
        """An object of any kind on the host should be as wanted."""
        resource = self._around.resource(wish.wanted["apiVersion"], wish.wanted["kind"])
        if resource is None:
            raise NotFound(f"the host does not serve {wish.wanted['apiVersion']} {wish.wanted['kind']}")
        answer = await self._put(client, resource, wish)
        table = self._around.cache.known(resource.id)
        if table is not None and answer is not None:
            table.put(answer)

    async def _put(self, client: Client, resource: Resource, wish: Make) -> Raw | None:
        metadata = wish.wanted["metadata"]
        place = metadata.get("namespace", "")
        if wish.apply_as:
            self.writes += 1
            return await client.patch(
                resource,
                place,
                metadata["name"],
                wish.wanted,
                type="apply",
                manager=wish.apply_as,
                force=wish.force,
            )
        if wish.seen is None:
            self.writes += 1
            return await client.create(resource, wish.wanted, manager=self._manager)
        if wish.replace:
            self.writes += 1
            return await client.replace(resource, wish.wanted, subresource=wish.subresource, manager=self._manager)
        patch = difference(wish.seen, wish.wanted)
        if not patch:
            return None
        self.writes += 1
        return await client.patch(
            resource,
            place,
            metadata["name"],
            with_version(patch, wish.seen["metadata"].get("resourceVersion", "")),
            subresource=wish.subresource,
            manager=self._manager,
        )

    async def _remove(self, wish: Gone) -> None:
        ref = ref_of(wish.target)
        resource = self._around.resource(ref.api_version, ref.kind)
        if resource is None:
            return
        self.writes += 1
        try:
            await self._around.client.delete(resource, ref.namespace, ref.name, uid=ref.uid, revision=wish.revision)
        except NotFound:
            table = self._around.cache.known(resource.id)
            if table is not None:
                table.drop((ref.namespace, ref.name))

    async def _grant_within(self, cluster: str, wish: Make | Gone) -> None:
        member = self._around.members.get(cluster)
        if member is None:
            raise Elsewhere(cluster, NotFound(f"cluster {cluster} is not joined"))
        try:
            if isinstance(wish, Make):
                await self._make_within(member, wish)
            else:
                await self._remove_within(member, wish)
        except ApiFault as fault:
            raise Elsewhere(cluster, fault) from fault
        except (OSError, TimeoutError) as fault:
            raise Elsewhere(cluster, ApiFault(str(fault) or type(fault).__name__)) from fault

    async def _make_within(self, member: Member, wish: Make) -> None:
        resource = await member.resource(wish.wanted["apiVersion"], wish.wanted["kind"])
        metadata = wish.wanted["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        try:
            answer = await self._put(member.client, resource, wish)
        except (AlreadyExists, Conflict):
            member.learn(resource, namespace, name, await member.client.get(resource, namespace, name))
            raise
        except NotFound:
            if wish.seen is not None:
                member.learn(resource, namespace, name, None)
            raise
        if answer is not None:
            member.learn(resource, namespace, name, answer)

    async def _remove_within(self, member: Member, wish: Gone) -> None:
        ref = ref_of(wish.target)
        resource = await member.resource(ref.api_version, ref.kind)
        self.writes += 1
        try:
            await member.client.delete(resource, ref.namespace, ref.name, uid=ref.uid, revision=wish.revision)
        except NotFound:
            member.learn(resource, ref.namespace, ref.name, None)

    async def _look(self, cluster: str, ref: Ref) -> None:
        member = self._around.members.get(cluster)
        if member is None:
            raise Elsewhere(cluster, NotFound(f"cluster {cluster} is not joined"))
        try:
            resource = await member.resource(ref.api_version, ref.kind)
            try:
                member.learn(
                    resource, ref.namespace, ref.name, await member.client.get(resource, ref.namespace, ref.name)
                )
            except NotFound:
                member.learn(resource, ref.namespace, ref.name, None)
        except ApiFault as fault:
            raise Elsewhere(cluster, fault) from fault
        except (OSError, TimeoutError) as fault:
            raise Elsewhere(cluster, ApiFault(str(fault) or type(fault).__name__)) from fault

    async def _inquire(self, wish: Inquire) -> bool:
        """Whether the member lets the user do all of it."""
        member = self._around.members.get(wish.cluster)
        if member is None:
            raise Elsewhere(wish.cluster, NotFound(f"cluster {wish.cluster} is not joined"))
        try:
            resource = await member.resource(wish.ref.api_version, wish.ref.kind)
            for verb in wish.verbs:
                answer = await member.client.submit(REVIEWS, "", "", "", review(wish, resource, verb))
                if not (answer.get("status") or {}).get("allowed"):
                    return False
        except ApiFault as fault:
            raise Elsewhere(wish.cluster, fault) from fault
        except (OSError, TimeoutError) as fault:
            raise Elsewhere(wish.cluster, ApiFault(str(fault) or type(fault).__name__)) from fault
        return True


def review(wish: Inquire, resource: Resource, verb: str) -> Raw:
    """The question in the words of Kubernetes."""
    account = wish.user.removeprefix("system:serviceaccount:").partition(":")[0]
    return {
        "apiVersion": REVIEWS.api_version,
        "kind": REVIEWS.kind,
        "spec": {
            "user": wish.user,
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{account}", "system:authenticated"],
            "resourceAttributes": {
                "verb": verb,
                "group": resource.group,
                "version": resource.version,
                "resource": resource.plural,
                "namespace": wish.ref.namespace if resource.namespaced else "",
                "name": wish.ref.name,
            },
        },
    }


class Elsewhere(Exception):
    """A fault that happened in a member."""

    def __init__(self, cluster: str, fault: ApiFault) -> None:
        super().__init__(f"{cluster}: {fault}")
        self.cluster = cluster
        self.fault = fault


def ref_of(target: Object | Ref) -> Ref:
    if isinstance(target, Ref):
        return target
    kind = kind_of(target)
    key = key_of(target)
    return Ref(kind.api_version, kind.name, key.namespace, key.name, target.metadata.uid)


def _type_to_create(wish: Wish) -> type[Object] | None:
    """The type of an object that does not exist yet; None of every other wish."""
    return type(wish) if isinstance(wish, Object) and not wish.metadata.resource_version else None


def _is_routine(wish: Wish) -> bool:
    """Told only where the profile says so."""
    return isinstance(wish, Note) and wish.routine


def _subject(entry: Entry | None, controller: Controller) -> Any:
    if entry is None:
        return None
    return entry.typed if controller.subjects else entry.raw
