"""Refusals say what is wrong, all of it, and each thing once."""

from trimtab.errors import Cause
from trimtab.server.registry.api_errors import invalid


def test_what_two_checks_find_wrong_is_said_once_and_listed_twice() -> None:
    twice, other = (
        Cause("FieldValueRequired", "Required value", "spec.a"),
        Cause("FieldValueInvalid", "is odd", "spec.b"),
    )
    assert invalid("Cluster", "x.io", "m1", [twice, twice]).message == (
        'Cluster.x.io "m1" is invalid: spec.a: Required value'
    )
    refused = invalid("Cluster", "x.io", "m1", [twice, other, twice])
    assert refused.message == 'Cluster.x.io "m1" is invalid: [spec.a: Required value, spec.b: is odd]'
    assert list(refused.causes) == [twice, other, twice]
