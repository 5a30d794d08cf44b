"""The admission chain, which may change or refuse a write after decoding and before storage."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.errors import Cause
from trimtab.server import api_errors
from trimtab.server.auth.user import Caller
from trimtab.server.resources import Where
from trimtab.store.records import Entry
from trimtab.store.txn import Proposal


class Attributes(Struct, frozen=True):
    """The attributes of a write."""

    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    where: Where
    caller: Caller
    dry_run: bool = False


@runtime_checkable
class Mutating(Protocol):
    """A plugin that may change the object."""

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw: ...


@runtime_checkable
class Validating(Protocol):
    """A plugin that may refuse the object."""

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None: ...


Plugin = Mutating | Validating


@runtime_checkable
class Conditional(Protocol):
    """A plugin whose decision depends on other stored objects: it checks again in the transaction that writes."""

    def proviso(self, attributes: Attributes, obj: Raw) -> Proposal | None: ...


@runtime_checkable
class Selective(Protocol):
    """A plugin for some kinds or operations only; other writes skip it."""

    def concerns(self, kind: Kind, operation: str) -> bool: ...


class _Links(NamedTuple):
    """The plugins for one operation on one kind."""

    mutating: Sequence[Mutating]
    validating: Sequence[Validating]


class Admission:
    """All plugins in order, after the check that every server has: the namespace exists and is not terminating."""

    def __init__(self, lookup: Callable[[str], Entry | None], plugins: Sequence[Plugin] = ()) -> None:
        self._lookup = lookup
        self._plugins = plugins
        self._links: dict[tuple[str, str], _Links] = {}
        self._conditional = [plugin for plugin in plugins if isinstance(plugin, Conditional)]

    def check_place(self, attributes: Attributes) -> None:
        """Refuse to create in a namespace that is missing or terminating."""
        served, namespace, name = attributes.where.served, attributes.where.namespace, attributes.where.name
        if not served.kind.namespaced or "list" not in served.verbs:
            return
        entry = self._lookup(f"/registry/core/namespaces/{namespace}")
        if entry is None:
            raise api_errors.not_found("namespaces", "", namespace)
        if b'"phase":"Terminating"' in entry.value and b'"deletionTimestamp":"' in entry.value:
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
            raise api_errors.forbidden(served.resource, served.group, name, message, [cause])

    def _about(self, attributes: Attributes) -> _Links:
        kind, operation = attributes.where.served.kind, attributes.operation
        plugins = self._links.get((kind.id, operation))
        if plugins is None:
            handling = [
                plugin
                for plugin in self._plugins
                if not isinstance(plugin, Selective) or plugin.concerns(kind, operation)
            ]
            plugins = self._links[kind.id, operation] = _Links(
                [plugin for plugin in handling if isinstance(plugin, Mutating)],
                [plugin for plugin in handling if isinstance(plugin, Validating)],
            )
        return plugins

    def forget(self) -> None:
        """Forget which plugins handle which kinds, because that may have changed."""
        self._links.clear()

    def mutating(self, attributes: Attributes) -> Sequence[Mutating]:
        """The plugins that may change this write, in order; most writes have none."""
        return self._about(attributes).mutating

    def validating(self, attributes: Attributes) -> Sequence[Validating]:
        """The plugins that may refuse this write."""
        return self._about(attributes).validating

    def provisos(self, attributes: Attributes, obj: Raw) -> list[Proposal]:
        """The checks to repeat in the transaction that writes the object."""
        checks = (plugin.proviso(attributes, obj) for plugin in self._conditional)
        return [check for check in checks if check is not None]
