"""The admission chain."""

import pytest

from trimtab.api.kind import Kind
from trimtab.api.value import Object
from trimtab.errors import Forbidden, NotFound
from trimtab.server.admission.chain import AdmissionChain, Attributes
from trimtab.server.auth.user import Caller
from trimtab.server.resources import ObjectPath, ServedResource
from trimtab.store.records import StoredEntry


def attributes(plural: str = "widgets", operation: str = "CREATE") -> Attributes:
    kind = Kind(Object, group="example.com", version="v1", name="Widget", plural=plural)
    return Attributes(operation, ObjectPath(ServedResource(kind, "v1", schema=dict), "team", "w"), Caller())


class WidgetValidator:
    """Validates the creation of widgets only."""

    calls = 0

    def handles(self, kind: Kind, operation: str) -> bool:
        self.calls += 1
        return kind.plural == "widgets" and operation == "CREATE"

    async def validate(self, attributes: object, obj: object, old: object) -> None:
        """Accepts every object."""


class UnselectiveMutator:
    """Changes every kind."""

    async def mutate(self, attributes: object, obj: dict, old: object) -> dict:
        return obj


def test_plugins_are_selected_by_kind_and_operation() -> None:
    selective, mutating = WidgetValidator(), UnselectiveMutator()
    chain = AdmissionChain(lambda _: None, [selective, mutating])
    assert list(chain.plugins_for(attributes()).validating) == [selective]
    assert list(chain.plugins_for(attributes(operation="UPDATE")).validating) == []
    assert list(chain.plugins_for(attributes("gadgets")).validating) == []
    assert list(chain.plugins_for(attributes("gadgets")).mutating) == [mutating]


def test_selection_is_cached_until_it_is_reset() -> None:
    selective = WidgetValidator()
    chain = AdmissionChain(lambda _: None, [selective])
    for _ in range(3):
        chain.plugins_for(attributes())
    assert selective.calls == 1
    chain.reset_cache()
    chain.plugins_for(attributes())
    assert selective.calls == 2


def test_namespace_must_exist_and_must_not_terminate() -> None:
    def chain(namespace: bytes | None) -> AdmissionChain:
        return AdmissionChain(lambda key: StoredEntry(key, namespace, 2, 2) if namespace is not None else None)

    chain(b'{"metadata":{},"status":{"phase":"Active"}}').check_namespace(attributes())
    with pytest.raises(NotFound, match='namespaces "team" not found'):
        chain(None).check_namespace(attributes())
    terminating = b'{"metadata":{"deletionTimestamp":"2030-01-01T00:00:00Z"},"status":{"phase":"Terminating"}}'
    with pytest.raises(Forbidden, match="because it is being terminated"):
        chain(terminating).check_namespace(attributes())
