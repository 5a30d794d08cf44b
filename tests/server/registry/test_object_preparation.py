"""Which version and uid of an object an update may name."""

import pytest

from trimtab.api.kind import Kind
from trimtab.api.value import Object
from trimtab.errors import ApiError, Conflict, Invalid
from trimtab.server.registry.object_preparation import check_identity
from trimtab.server.resources import ServedResource

SERVED = ServedResource(
    Kind(Object, group="example.com", version="v1", name="Widget", plural="widgets"), "v1", schema=dict
)
STORED = {"name": "w", "uid": "u1", "resourceVersion": "7"}


def check(*, replaces: bool = True, **metadata: str) -> None:
    check_identity(SERVED, STORED, {"metadata": {"name": "w", **metadata}}, replaces=replaces)


def test_update_of_the_current_version_is_accepted() -> None:
    check(resourceVersion="7", uid="u1")
    check(resourceVersion="7", replaces=False)
    check(resourceVersion="0")


@pytest.mark.parametrize("version", ["6", "8"])
def test_update_of_another_version_is_a_conflict(version: str) -> None:
    for replaces in (True, False):
        with pytest.raises(Conflict):
            check(resourceVersion=version, replaces=replaces)


def test_update_with_the_uid_of_another_object_is_refused() -> None:
    with pytest.raises(Conflict, match="UID in precondition: u2, UID in object meta: u1"):
        check(resourceVersion="7", uid="u2")
    with pytest.raises(Invalid, match="field is immutable"):
        check(uid="u2", replaces=False)


def test_version_that_is_no_number_is_refused() -> None:
    with pytest.raises(ApiError, match="invalid syntax"):
        check(resourceVersion="new")
