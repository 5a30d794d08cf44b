"""Reads of stored objects: one object, or the pages of a list."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.errors import Expired
from trimtab.server import api_errors
from trimtab.server.registry.selector_matching import MATCH_EVERYTHING, RequestSelector, parse_selectors
from trimtab.server.request.options import (
    CURRENT_STATE,
    ListOptions,
    encode_continue_token,
    parse_version,
    validate_list_options,
)
from trimtab.server.resources import ObjectPath, ServedResource
from trimtab.server.storage.object_codec import ObjectList, StoredObject, pack
from trimtab.store.records import StoredEntry
from trimtab.store.store import Store

ComputedObjects = Callable[[], Iterable[Raw]]
"""Returns all current objects of a kind that is never stored."""
_MAX_STEPS_IN_LOOP = 10_000
"""Comparisons of a list request, of about a microsecond, that the event loop does itself."""


class ObjectReader:
    """Reads objects from the store, and those of kinds that are never stored from their sources."""

    def __init__(self, store: Store, computed: Mapping[str, ComputedObjects]) -> None:
        """`computed` are the sources of kinds that are never stored, by kind id."""
        self._store = store
        self._computed = computed

    def entry(self, where: ObjectPath) -> StoredEntry:
        is_computed = where.served.kind.id in self._computed
        if is_computed:
            found = next((entry for entry in self._computed_entries(where) if entry.key == where.key), None)
        else:
            found = self._store.get(where.key)
        if found is None:
            # A metrics server names the missing node or pod, which has no group.
            raise api_errors.not_found(where.served.resource, "" if is_computed else where.served.group, where.name)
        return found

    def get(self, where: ObjectPath, version: str = "") -> StoredObject:
        if version:
            self._check_version(version)
        entry = self.entry(where)
        return StoredObject(where.served, entry.value, entry.mod_revision)

    def _check_version(self, text: str) -> None:
        version = parse_version(text)
        if version is None:
            raise api_errors.unclassified_error(f'strconv.ParseUint: parsing "{text}": invalid syntax')
        if version > self._store.revision:
            raise api_errors.version_too_large(version, self._store.revision)

    def list(self, where: ObjectPath, options: ListOptions) -> ObjectList:
        plan = self.plan_list(where, options)
        return plan.finish(plan.matching_entries())

    def plan_list(self, where: ObjectPath, options: ListOptions) -> "ListPlan":
        """The entries that a list request may select, as they are now; what is left to do does not read the store."""
        served, options = where.served, validate_list_options(options)
        choice = parse_selectors(served, options.labels, options.fields)
        if served.kind.id in self._computed:
            return ListPlan(served, choice, [*self._computed_entries(where)], self._store.revision)
        if options.version is not None and options.version > self._store.revision:
            raise api_errors.version_too_large(options.version, self._store.revision)
        if choice.single_name and not options.after and not options.exact:
            return self._plan_single(where, choice)
        limit = 0 if options.version == 0 else options.limit  # the watch cache serves any version and ignores the limit
        revision = options.snapshot or (options.version if options.exact else None)
        return self._plan_page(where, choice, limit, options.after, revision or None)

    def _computed_entries(self, where: ObjectPath) -> Iterator[StoredEntry]:
        """The objects of a kind that is never stored, as store entries."""
        served, now = where.served, self._store.revision
        for obj in self._computed[served.kind.id]():
            metadata = obj["metadata"]
            key = served.key(metadata.get("namespace", ""), metadata["name"])
            if key.startswith(served.collection_prefix(where.namespace)):
                yield StoredEntry(key, pack(obj), now, now)

    def _plan_single(self, where: ObjectPath, selector: RequestSelector) -> "ListPlan":
        served, namespace = where.served, where.namespace
        if namespace or not served.kind.namespaced:
            entry = self._store.get(served.key(namespace, selector.single_name))
            entries = [entry] if entry else []
        else:
            suffix = f"/{selector.single_name}"
            entries = [entry for entry in self._store.list(served.prefix).entries if entry.key.endswith(suffix)]
        return ListPlan(served, selector, entries, self._store.revision)

    def _plan_page(
        self, where: ObjectPath, selector: RequestSelector, limit: int, after: str, revision: int | None
    ) -> "ListPlan":
        served = where.served
        prefix = served.collection_prefix(where.namespace)
        start = f"{prefix}{after}" if after else None
        is_whole = selector is not MATCH_EVERYTHING  # the limit then counts what the selector selects
        try:
            page = self._store.list(prefix, start_after=start, limit=0 if is_whole else limit, at_revision=revision)
        except Expired:
            if after:
                raise ExpiredToken(encode_continue_token(CURRENT_STATE, after)) from None
            raise
        return ListPlan(
            served, selector, page.entries, page.revision, limit, prefix, None if is_whole else page.remaining
        )


class ListPlan(NamedTuple):
    """A list request whose entries were read and are not selected yet."""

    served: ServedResource
    selector: RequestSelector
    entries: Sequence[StoredEntry]
    revision: int
    limit: int = 0
    prefix: str = ""
    remaining: int | None = None
    """How many entries follow, if the selector matches everything."""

    def is_expensive(self) -> bool:
        """Whether the selection takes more than some milliseconds: each requirement is compared with each object."""
        if self.selector is MATCH_EVERYTHING:
            return False
        fields, labels = len(self.selector.fields), len(self.selector.labels.rules)
        steps = 3 + labels + (10 + fields if fields else 0)
        return len(self.entries) * steps + sum(len(entry.value) for entry in self.entries) // 100 > _MAX_STEPS_IN_LOOP

    def matching_entries(self) -> Sequence[StoredEntry]:
        """The entries that the selector selects; may run in a thread."""
        if self.selector is MATCH_EVERYTHING:
            return self.entries
        return [entry for entry in self.entries if self.selector.matches(entry.value)]

    def finish(self, entries: Sequence[StoredEntry]) -> ObjectList:
        """The page of these entries."""
        limit, remaining = self.limit, self.remaining
        if limit and remaining is None:
            remaining = len(entries) - limit
            entries = entries[:limit]
        if limit and remaining is not None and remaining > 0:
            token = encode_continue_token(self.revision, entries[-1].key.removeprefix(self.prefix))
            return ObjectList(self.served, entries, self.revision, token, self.remaining)
        return ObjectList(self.served, entries, self.revision)


class ExpiredToken(Expired):
    """A continue token that has expired; the list can be continued without consistency."""

    def __init__(self, token: str) -> None:
        super().__init__(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list."
        )
        self._token = token

    def status(self) -> Raw:
        return {**super().status(), "metadata": {"continue": self._token}}
