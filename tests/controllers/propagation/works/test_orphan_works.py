"""Works without a binding are deleted after a grace period."""

from datetime import timedelta

from builders import NOON, binding
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.work import Binding, Work
from trimtab.api.value import Meta
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, RequeueAfter
from trimtab.controllers.propagation.works.orphan_works import (
    orphan_works,
    work_without_binding,
    works_of_deleted_binding,
)


def work_of(subject: Binding, *, age: float = 0, **metadata: object) -> Work:
    annotations = {well_known.RB_NAMESPACE: subject.namespace, well_known.RB_NAME: subject.name}
    created = NOON - timedelta(seconds=age)
    named = Meta(namespace="karmada-es-m1", name="w", annotations=annotations, creation_timestamp=created)
    return Work(metadata=named.but(**metadata))


def test_new_work_is_reconciled_only_without_its_binding() -> None:
    existing = binding(clusters={"m1": 1})
    work = work_of(existing)
    assert list(work_without_binding(None, work, FakeView())) == [key_of(work)]
    assert list(work_without_binding(None, work, FakeView([existing]))) == []
    assert list(work_without_binding(work, work, FakeView())) == []
    assert list(work_without_binding(work, None, FakeView())) == []
    assert list(work_without_binding(None, work_of(existing, annotations={}), FakeView())) == []


def test_works_are_reconciled_when_their_binding_is_removed() -> None:
    removed = binding(clusters={"m1": 1})
    work = work_of(removed, labels={well_known.RB_ID: "id-1"})
    removed = removed.but(metadata=removed.metadata.but(labels={well_known.RB_ID: "id-1"}))
    view = FakeView([work])
    assert list(works_of_deleted_binding(removed, None, view)) == [key_of(work)]
    assert list(works_of_deleted_binding(removed, removed, view)) == []
    assert list(works_of_deleted_binding(None, removed, view)) == []


def test_orphan_work_is_deleted_after_grace_period() -> None:
    missing = binding(clusters={"m1": 1})
    old, leaving = work_of(missing, age=40), work_of(missing, age=40, deletion_timestamp=NOON)
    assert list(orphan_works(work_of(missing, age=10), FakeView())) == [RequeueAfter(20.0)]
    assert list(orphan_works(old, FakeView())) == [Delete(old)]
    assert list(orphan_works(old, FakeView([missing]))) == []
    assert list(orphan_works(leaving, FakeView())) == []
