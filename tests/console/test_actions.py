"""Addresses of actions, and the confirmation of dangerous ones."""

import pytest

from trimtab.console import pages
from trimtab.console.actions import ActionError, check_typed_name, console_actions, find_action, value_of
from trimtab.errors import NotFound
from trimtab.registry import discover


def test_an_action_gets_what_its_address_names() -> None:
    discover(pages)
    paths = [one.path for one in console_actions.values()]
    assert paths
    for path in paths:
        given = tuple("x" if part.startswith("{") else part for part in path)
        _, values = find_action(given)
        assert values == tuple("x" for part in path if part.startswith("{"))


def test_an_unknown_address_is_no_action() -> None:
    with pytest.raises(NotFound):
        find_action(("clusters", "m1", "explode"))


def test_a_dangerous_action_needs_the_typed_name() -> None:
    check_typed_name([("confirm", " m1 ")], "m1")
    for form in ([], [("confirm", "")], [("confirm", "m2")]):
        with pytest.raises(ActionError):
            check_typed_name(form, "m1")


def test_the_last_value_of_a_field_counts() -> None:
    assert value_of([("a", "1"), ("a", " 2 ")], "a") == "2"
    assert value_of([], "a") == ""
