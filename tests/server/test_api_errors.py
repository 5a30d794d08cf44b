"""Error messages of the API server."""

from trimtab.errors import Cause
from trimtab.server.api_errors import invalid


def test_repeated_cause_appears_once_in_the_message_and_twice_in_the_causes() -> None:
    repeated, other = (
        Cause("FieldValueRequired", "Required value", "spec.a"),
        Cause("FieldValueInvalid", "is odd", "spec.b"),
    )
    assert invalid("Cluster", "x.io", "m1", [repeated, repeated]).message == (
        'Cluster.x.io "m1" is invalid: spec.a: Required value'
    )
    error = invalid("Cluster", "x.io", "m1", [repeated, other, repeated])
    assert error.message == 'Cluster.x.io "m1" is invalid: [spec.a: Required value, spec.b: is odd]'
    assert list(error.causes) == [repeated, other, repeated]
