"""The admission chain."""

import pytest

from trimtab.api.kind import Kind
from trimtab.api.value import Object
from trimtab.errors import Forbidden, NotFound
from trimtab.server.admission.chain import Admission, Attributes
from trimtab.server.auth.user import Caller
from trimtab.server.resources import Served, Where
from trimtab.store.records import Entry


def attributes(plural: str = "widgets", operation: str = "CREATE") -> Attributes:
    kind = Kind(Object, group="example.com", version="v1", name="Widget", plural=plural)
    return Attributes(operation, Where(Served(kind, "v1", schema=dict), "team", "w"), Caller())


class Selective:
    """Validates the creation of widgets only."""

    calls = 0

    def concerns(self, kind: Kind, operation: str) -> bool:
        self.calls += 1
        return kind.plural == "widgets" and operation == "CREATE"

    async def validate(self, attributes: object, obj: object, old: object) -> None:
        """Accepts every object."""


class Mutating:
    """Changes every kind."""

    async def mutate(self, attributes: object, obj: dict, old: object) -> dict:
        return obj


def test_plugins_are_selected_by_kind_and_operation() -> None:
    selective, mutating = Selective(), Mutating()
    chain = Admission(lambda _: None, [selective, mutating])
    assert list(chain.validating(attributes())) == [selective]
    assert list(chain.validating(attributes(operation="UPDATE"))) == []
    assert list(chain.validating(attributes("gadgets"))) == []
    assert list(chain.mutating(attributes("gadgets"))) == [mutating]


def test_selection_is_cached_until_it_is_reset() -> None:
    selective = Selective()
    chain = Admission(lambda _: None, [selective])
    for _ in range(3):
        chain.validating(attributes())
    assert selective.calls == 1
    chain.forget()
    chain.validating(attributes())
    assert selective.calls == 2


def test_namespace_must_exist_and_must_not_terminate() -> None:
    def chain(namespace: bytes | None) -> Admission:
        return Admission(lambda key: Entry(key, namespace, 2, 2) if namespace is not None else None)

    chain(b'{"metadata":{},"status":{"phase":"Active"}}').check_place(attributes())
    with pytest.raises(NotFound, match='namespaces "team" not found'):
        chain(None).check_place(attributes())
    terminating = b'{"metadata":{"deletionTimestamp":"2030-01-01T00:00:00Z"},"status":{"phase":"Terminating"}}'
    with pytest.raises(Forbidden, match="because it is being terminated"):
        chain(terminating).check_place(attributes())
