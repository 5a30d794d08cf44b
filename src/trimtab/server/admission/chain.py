"""The admission chain, which may change or refuse a write after decoding and before storage."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple, Protocol, cast, runtime_checkable

import msgspec
from msgspec import Struct

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.errors import Cause
from trimtab.server import api_errors
from trimtab.server.auth.user import Caller
from trimtab.server.resources import ObjectPath
from trimtab.store.keys import key_below, resource_prefix
from trimtab.store.records import StoredEntry
from trimtab.store.txn import Proposal

_NAMESPACES = resource_prefix("", "namespaces")


class Attributes(Struct, frozen=True):
    """The attributes of a write."""

    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    where: ObjectPath
    caller: Caller
    dry_run: bool = False


@runtime_checkable
class MutatingPlugin(Protocol):
    """A plugin that may change the object."""

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw: ...


@runtime_checkable
class ValidatingPlugin(Protocol):
    """A plugin that may refuse the object."""

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None: ...


AdmissionPlugin = MutatingPlugin | ValidatingPlugin


@runtime_checkable
class ClockedPlugin(Protocol):
    """A plugin that is made before its server and gets the server's clock from it."""

    def use_clock(self, now: Callable[[], datetime]) -> None: ...


@runtime_checkable
class TransactionalPlugin(Protocol):
    """A plugin whose decision depends on other stored objects: it checks again in the transaction that writes."""

    def transaction_check(self, attributes: Attributes, obj: Raw) -> Proposal | None: ...


@runtime_checkable
class SelectivePlugin(Protocol):
    """A plugin for some kinds or operations only; other writes skip it."""

    def handles(self, kind: Kind, operation: str) -> bool: ...


class _PluginRoles(NamedTuple):
    """What the plugins of a class can do."""

    is_selective: bool
    is_mutating: bool
    is_validating: bool
    is_transactional: bool


@cache
def _roles_of(type_: type[AdmissionPlugin]) -> _PluginRoles:
    """To compare a class with a protocol takes as long as a small write, so it is done once."""
    return _PluginRoles(
        issubclass(type_, SelectivePlugin),
        issubclass(type_, MutatingPlugin),
        issubclass(type_, ValidatingPlugin),
        issubclass(type_, TransactionalPlugin),
    )


class KindPlugins(NamedTuple):
    """The plugins for one operation on one kind, in order; most writes have none."""

    mutating: Sequence[MutatingPlugin]
    """Those that may change the write."""
    validating: Sequence[ValidatingPlugin]
    """Those that may refuse it."""


class AdmissionChain:
    """All plugins in order, after the check that every server has: the namespace exists and is not terminating."""

    def __init__(self, lookup: Callable[[str], StoredEntry | None], plugins: Sequence[AdmissionPlugin] = ()) -> None:
        self._lookup = lookup
        self._plugins = [(plugin, _roles_of(type(plugin))) for plugin in plugins]
        self._by_kind: dict[tuple[str, str], KindPlugins] = {}
        self._transactional = [
            cast("TransactionalPlugin", plugin) for plugin, roles in self._plugins if roles.is_transactional
        ]

    def check_namespace(self, attributes: Attributes) -> None:
        """Refuse to create in a namespace that is missing or terminating."""
        served, namespace, name = attributes.where.served, attributes.where.namespace, attributes.where.name
        if not served.kind.namespaced or "list" not in served.verbs:
            return
        entry = self._lookup(key_below(_NAMESPACES, namespace))
        if entry is None:
            raise api_errors.not_found("namespaces", "", namespace)
        if is_terminating(entry.value):
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
            raise api_errors.forbidden(served.resource, served.group, name, message, [cause])

    def plugins_for(self, attributes: Attributes) -> KindPlugins:
        kind, operation = attributes.where.served.kind, attributes.operation
        plugins = self._by_kind.get((kind.id, operation))
        if plugins is None:
            handling = [
                (plugin, roles)
                for plugin, roles in self._plugins
                if not roles.is_selective or cast("SelectivePlugin", plugin).handles(kind, operation)
            ]
            plugins = self._by_kind[kind.id, operation] = KindPlugins(
                [cast("MutatingPlugin", plugin) for plugin, roles in handling if roles.is_mutating],
                [cast("ValidatingPlugin", plugin) for plugin, roles in handling if roles.is_validating],
            )
        return plugins

    def reset_cache(self) -> None:
        """Forget which plugins handle which kinds, because that may have changed."""
        self._by_kind.clear()

    def transaction_checks(self, attributes: Attributes, obj: Raw) -> list[Proposal]:
        """The checks to repeat in the transaction that writes the object."""
        if not self._transactional:
            return []
        checks = (plugin.transaction_check(attributes, obj) for plugin in self._transactional)
        return [check for check in checks if check is not None]


class _Metadata(Struct):
    deletionTimestamp: str | None = None  # noqa: N815 - the name in the stored object


class _Status(Struct):
    phase: str = ""


class _Namespace(Struct):
    """What is read of a namespace on every create in it."""

    metadata: _Metadata
    status: _Status | None = None


_namespace_decoder = msgspec.json.Decoder(_Namespace)


def is_terminating(namespace: bytes) -> bool:
    found = _namespace_decoder.decode(namespace)
    return bool(found.metadata.deletionTimestamp) and found.status is not None and found.status.phase == "Terminating"
