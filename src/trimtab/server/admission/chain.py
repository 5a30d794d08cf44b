"""The chain that may change or refuse a write after it is understood and before it is stored."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.errors import Cause
from trimtab.server.auth.user import Caller
from trimtab.server.registry import api_errors
from trimtab.server.registry.resources import Where
from trimtab.store.records import Entry
from trimtab.store.txn import Proposal


class Attributes(Struct, frozen=True):
    """What a write is about."""

    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    where: Where
    caller: Caller
    dry_run: bool = False


@runtime_checkable
class Mutating(Protocol):
    """A link that may change what is written."""

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw: ...


@runtime_checkable
class Validating(Protocol):
    """A link that may refuse what is written."""

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None: ...


Plugin = Mutating | Validating


@runtime_checkable
class Conditional(Protocol):
    """A link whose verdict depends on what else is stored: it is asked again in the very step that writes."""

    def proviso(self, attributes: Attributes, obj: Raw) -> Proposal | None: ...


@runtime_checkable
class Selective(Protocol):
    """A link that has a say about some kinds or operations only; the others are not kept waiting for it."""

    def concerns(self, kind: Kind, operation: str) -> bool: ...


class _Links(NamedTuple):
    """Those who have a say about one operation on one kind."""

    mutating: Sequence[Mutating]
    validating: Sequence[Validating]


Mutate = Callable[[Attributes, Raw, Raw | None], Awaitable[Raw]]


class Admission:
    """All links in order, behind the one that every server has: objects live only in living namespaces."""

    def __init__(self, lookup: Callable[[str], Entry | None], plugins: Sequence[Plugin] = ()) -> None:
        self._lookup = lookup
        self._plugins = plugins
        self._links: dict[tuple[str, str], _Links] = {}
        self._conditional = [plugin for plugin in plugins if isinstance(plugin, Conditional)]

    def check_place(self, attributes: Attributes) -> None:
        """Refuse to create in a namespace that is missing or ending."""
        served, namespace, name = attributes.where.served, attributes.where.namespace, attributes.where.name
        if not served.kind.namespaced or "list" not in served.verbs:
            return
        entry = self._lookup(f"/registry/core/namespaces/{namespace}")
        if entry is None:
            raise api_errors.not_found("namespaces", "", namespace)
        if b'"phase":"Terminating"' in entry.value and b'"deletionTimestamp":"' in entry.value:
            said = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
            raise api_errors.forbidden(served.resource, served.group, name, said, [cause])

    def _about(self, attributes: Attributes) -> _Links:
        kind, operation = attributes.where.served.kind, attributes.operation
        found = self._links.get((kind.id, operation))
        if found is None:
            concerned = [
                one for one in self._plugins if not isinstance(one, Selective) or one.concerns(kind, operation)
            ]
            found = self._links[kind.id, operation] = _Links(
                [plugin for plugin in concerned if isinstance(plugin, Mutating)],
                [plugin for plugin in concerned if isinstance(plugin, Validating)],
            )
        return found

    def forget(self) -> None:
        """Somebody may concern himself with other kinds than before."""
        self._links.clear()

    def mutating(self, attributes: Attributes) -> Sequence[Mutating]:
        """Who may change this write, in order; for most there is nobody to wait for."""
        return self._about(attributes).mutating

    def validating(self, attributes: Attributes) -> Sequence[Validating]:
        """Who may refuse it."""
        return self._about(attributes).validating

    def provisos(self, attributes: Attributes, obj: Raw) -> list[Proposal]:
        """What must still hold when the object is written, whoever wrote in between."""
        made = (plugin.proviso(attributes, obj) for plugin in self._conditional)
        return [proviso for proviso in made if proviso is not None]
