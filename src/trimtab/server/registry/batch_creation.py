"""Creates many objects in one transaction, for callers inside this process."""

from collections.abc import Iterable, Sequence

from trimtab.api.value import Raw
from trimtab.clock import Clock, timestamp
from trimtab.errors import ApiError
from trimtab.server.admission.chain import AdmissionChain, Attributes
from trimtab.server.auth.user import Caller
from trimtab.server.registry.object_commits import ObjectCommits, WriteOutcome, put_new
from trimtab.server.registry.object_preparation import ObjectPreparation
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.request.options import WriteOptions
from trimtab.server.resources import ObjectPath, ResourceCatalogue, ServedResource
from trimtab.server.storage.object_codec import event_memo, pack
from trimtab.store.store import Store
from trimtab.store.txn import ABSENT, PutKey


class BatchCreation:
    """Creates objects that are complete or named by this process."""

    def __init__(
        self,
        store: Store,
        catalogue: ResourceCatalogue,
        clock: Clock,
        admission: AdmissionChain,
        preparation: ObjectPreparation,
        commits: ObjectCommits,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._clock = clock
        self._admission = admission
        self._preparation = preparation
        self._commits = commits

    async def create_together(
        self, served: ServedResource, objects: Iterable[Raw], options: WriteOptions, caller: Caller
    ) -> Sequence[WriteOutcome]:
        """Create named objects in one transaction; none if one is refused or needs a check in the transaction."""
        puts: dict[str, PutKey] = {}
        now = timestamp(self._clock.now())
        for obj in objects:
            where = ObjectPath(served, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            key, attributes = where.key, Attributes("CREATE", where, caller)
            self._admission.check_namespace(attributes)
            new = await self._preparation.new_object(DesiredObject(obj), options, attributes, now)
            if key in puts or self._admission.transaction_checks(attributes, new):
                return ()
            puts[key] = put_new(served, key, new)
        return await self._commits.create_together(served, puts.values())

    async def create_missing(self, objects: Iterable[Raw], caller: Caller) -> None:
        """Create those of `objects` that do not exist yet, in one transaction."""
        writes, now = [], timestamp(self._clock.now())
        for obj in objects:
            served = self._catalogue.find_kind(obj["apiVersion"], obj["kind"])
            if served is None:
                continue
            where = ObjectPath(served, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            if self._store.get(where.key) is None:
                attributes = Attributes("CREATE", where, caller)
                new = await self._preparation.new_object(
                    DesiredObject(obj), WriteOptions(field_manager=caller.user_agent), attributes, now
                )
                writes.append(PutKey(where.key, pack(new), ABSENT))
        if writes:
            await self._store.commit(writes)

    async def record_events(self, served: ServedResource, events: Iterable[Raw], caller: Caller) -> None:
        """Create complete Events of this process in one transaction, without managedFields; drop refused ones."""
        writes, now = [], timestamp(self._clock.now())
        open_namespaces: set[str] = set()
        for event in events:
            where = ObjectPath(served, event["metadata"]["namespace"], event["metadata"]["name"])
            attributes = Attributes("CREATE", where, caller)
            try:
                if where.namespace not in open_namespaces:
                    self._admission.check_namespace(attributes)
                    open_namespaces.add(where.namespace)
                new = await self._preparation.new_event(event, attributes, now)
                put = PutKey(where.key, pack(new), memo=event_memo(served, new))
                if checks := self._admission.transaction_checks(attributes, new):
                    await self._commits.commit(served, put, *checks)
                else:
                    writes.append(put)
            except ApiError:
                continue
        if writes:
            await self._store.commit(writes)
