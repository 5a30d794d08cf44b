"""Works whose reason is gone are taken back, after a while."""

from datetime import timedelta

from builders import NOON, binding
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.work import Binding, Work
from trimtab.api.value import Meta
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Gone
from trimtab.controllers.propagation.orphan_works import collect, orphan


def work_of(subject: Binding, *, age: float = 0, **metadata: object) -> Work:
    annotations = {well_known.RB_NAMESPACE: subject.namespace, well_known.RB_NAME: subject.name}
    born = NOON - timedelta(seconds=age)
    named = Meta(namespace="karmada-es-m1", name="w", annotations=annotations, creation_timestamp=born)
    return Work(metadata=named.but(**metadata))


def test_a_new_work_is_looked_at_only_while_its_binding_is_not_there() -> None:
    there = binding(clusters={"m1": 1})
    work = work_of(there)
    assert list(orphan(None, work, FakeView())) == [key_of(work)]
    assert list(orphan(None, work, FakeView([there]))) == []
    assert list(orphan(work, work, FakeView())) == []
    assert list(orphan(work, None, FakeView())) == []
    assert list(orphan(None, work_of(there, annotations={}), FakeView())) == []


def test_a_work_without_a_binding_goes_when_patience_ends() -> None:
    gone = binding(clusters={"m1": 1})
    old, leaving = work_of(gone, age=40), work_of(gone, age=40, deletion_timestamp=NOON)
    assert list(collect(work_of(gone, age=10), FakeView())) == [Again(20.0)]
    assert list(collect(old, FakeView())) == [Gone(old)]
    assert list(collect(old, FakeView([gone]))) == []
    assert list(collect(leaving, FakeView())) == []
