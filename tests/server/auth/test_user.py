"""Users and callers."""

from trimtab.api.limits import MAX_SHORTENED_WARNING_CHARACTERS, MAX_WARNING_CHARACTERS, MAX_WARNINGS
from trimtab.server.auth.user import Caller, User


def test_user_info_leaves_out_empty_fields() -> None:
    assert User("alice").user_info() == {"username": "alice"}
    full = User("bob", ("devs",), "u1", (("scopes", ("a", "b")),))
    assert full.user_info() == {"username": "bob", "uid": "u1", "groups": ["devs"], "extra": {"scopes": ["a", "b"]}}


def test_each_warning_is_kept_once_per_caller() -> None:
    first, second = Caller(), Caller()
    first.warn("deprecated")
    first.warn("deprecated")
    assert (first.warnings, second.warnings) == (["deprecated"], [])


def test_warnings_are_shortened_once_they_are_too_long_together() -> None:
    caller = Caller()
    caller.warn("a" * 3000)
    assert caller.warnings == ["a" * 3000]
    caller.warn("b" * 3000)
    assert caller.warnings == ["a" * MAX_SHORTENED_WARNING_CHARACTERS, "b" * MAX_SHORTENED_WARNING_CHARACTERS]
    caller.warn("c" * 3000)
    assert caller.warnings[2:] == ["c" * MAX_SHORTENED_WARNING_CHARACTERS]


def test_number_of_warnings_is_bounded_by_their_total_length() -> None:
    caller = Caller()
    for index in range(20_000):
        caller.warn(f'unknown field "{"x" * 100}{index}"')
    total = sum(map(len, caller.warnings))
    assert MAX_WARNING_CHARACTERS <= total < MAX_WARNING_CHARACTERS + MAX_SHORTENED_WARNING_CHARACTERS


def test_a_response_has_at_most_64_warnings() -> None:
    caller = Caller()
    for number in range(200):
        caller.warn(str(number))
    assert len(caller.warnings) == MAX_WARNINGS
