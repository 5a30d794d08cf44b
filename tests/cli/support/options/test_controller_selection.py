"""`--controllers` selects controllers by name, and refuses names that do not exist."""

import pytest

from trimtab.cli.support.options.controller_selection import enabled_controllers
from trimtab.controllers.contract import controllers
from trimtab.errors import InputError


def names(text: str) -> set[str]:
    is_enabled = enabled_controllers(text)
    return {one.name for one in controllers.values() if is_enabled(one)}


def test_all_some_and_all_but_some() -> None:
    everything = names("*")
    assert {"schedule", "dispatch"} <= everything
    assert names("schedule,dispatch") == {"schedule", "dispatch"}
    assert names("*,-schedule") == everything - {"schedule"}


def test_unknown_name_is_refused() -> None:
    with pytest.raises(InputError, match="no-such-controller"):
        enabled_controllers("*,-no-such-controller")
