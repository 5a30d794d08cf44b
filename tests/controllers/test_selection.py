"""The option `--controllers`."""

from types import SimpleNamespace
from typing import Any

import pytest
from views import FakeView

from trimtab.controllers.selection import RUNNING, runs_here, select_controllers
from trimtab.errors import InputError

NAMES = ("placement", "clusterset", "manifestwork_replicaset")


def selected(text: str) -> list[str]:
    is_enabled: Any = select_controllers(text, NAMES)
    return [name for name in NAMES if is_enabled(SimpleNamespace(name=name))]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", list(NAMES)),
        ("*", list(NAMES)),
        ("placement", ["placement"]),
        ("placement, clusterset", ["placement", "clusterset"]),
        ("-placement", ["clusterset", "manifestwork_replicaset"]),
        ("*,-placement,-clusterset", ["manifestwork_replicaset"]),
        ("placement,clusterset,-placement", ["clusterset"]),
        ("manifestwork-replicaset", ["manifestwork_replicaset"]),
        ("-manifestwork-replicaset,-placement", ["clusterset"]),
    ],
)
def test_names_select_and_minus_excludes(text: str, names: list[str]) -> None:
    assert selected(text) == names


def test_unknown_name_is_refused_with_a_hint() -> None:
    with pytest.raises(InputError, match="there is no controller placment; did you mean placement"):
        selected("placment")
    with pytest.raises(InputError, match="the controllers are clusterset, manifestwork_replicaset, placement"):
        selected("-x")


def test_a_controller_runs_here_only_if_the_process_says_so() -> None:
    assert runs_here("dispatch", FakeView([], settings={RUNNING: frozenset({"detect", "dispatch"})}))
    assert not runs_here("dispatch", FakeView([], settings={RUNNING: frozenset({"detect"})}))
    assert not runs_here("dispatch", FakeView([]))
