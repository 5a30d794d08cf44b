"""Finalizers are added once, after those of others, and removed without touching those of others."""

from trimtab.api.kinds.work import Work
from trimtab.api.value import Meta
from trimtab.controllers.finalizers import with_finalizer, without_finalizers


def work(*finalizers: str) -> Work:
    return Work(metadata=Meta(name="web", finalizers=finalizers))


def test_a_finalizer_is_added_once_after_those_of_others() -> None:
    assert with_finalizer(work("a"), "b") == work("a", "b")
    known = work("b", "a")
    assert with_finalizer(known, "b") is known


def test_only_the_named_finalizers_are_removed() -> None:
    assert without_finalizers(work("a", "b", "c"), "b", "c") == work("a")
    unchanged = work("a")
    assert without_finalizers(unchanged, "b") is unchanged
