"""Users and callers."""

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
