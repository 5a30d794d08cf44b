"""Debug pages: who may read them, and what they say without a control plane."""

from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from builders import binding

from trimtab import debug_pages
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Condition
from trimtab.debug_pages import DebugPages, debug_action
from trimtab.decide.explanation import Explanation
from trimtab.errors import ApiError, NotFound
from trimtab.server.request.messages import Request
from trimtab.store.store import Store


def get(path: str, method: str = "GET") -> Request:
    return Request(method, path, {}, {})


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", "/debug/placements/team/p", "get"),
        ("POST", "/debug/placements/team/p", "create"),
        ("PUT", "/debug/placements/team/p", None),
        ("GET", "/debug/placements/team", None),
        ("GET", "/debug/bindings/team/p", None),
    ],
)
def test_debug_page_of_a_placement_needs_the_permission_of_its_method(method: str, path: str, verb: str | None) -> None:
    action = debug_action(get(path, method))
    assert (action.verb if action is not None else None) == verb
    if action is not None:
        assert (action.resource, action.namespace, action.name) == ("placements", "team", "p")


def test_profile_page_names_the_profile() -> None:
    pages = DebugPages(Store(), UPSTREAM, lambda: None, {"evacuate-after-seconds": 10, "internal": object()})
    document = orjson.loads(pages.handle(get("/debug/profile")).body)
    assert document == {"profile": "upstream", "settings": {"evacuate-after-seconds": 10}}


def test_nothing_is_explained_while_no_control_plane_runs() -> None:
    pages = DebugPages(Store(), UPSTREAM, lambda: None)
    with pytest.raises(NotFound):
        pages.handle(get("/debug/bindings/demo/web-deployment"))
    assert pages.handle(get("/debug/placements/demo/p")).code == 400
    assert pages.handle(get("/debug/placements/demo/p", "DELETE")).code == 405
    with pytest.raises(ApiError):
        pages.handle(get("/debug/bindings/demo/web-deployment", "DELETE"))


@pytest.mark.parametrize(
    ("ok", "scheduled", "stalled", "is_shown"),
    [
        (True, "True", "False", True),
        (False, "False", "False", True),
        (False, "True", "True", True),  # a drain that is still blocked
        (False, "True", "False", False),  # the drain was taken back
    ],
)
def test_decision_without_a_placement_is_not_shown_when_what_asked_for_it_was_taken_back(
    monkeypatch: pytest.MonkeyPatch, ok: bool, scheduled: str, stalled: str, is_shown: bool
) -> None:
    explanation = Explanation(ok=ok, message="0/3 clusters are available", strategy="", mode="Steady")
    monkeypatch.setattr(debug_pages, "explain", lambda _: explanation)
    state: Any = SimpleNamespace(memory=SimpleNamespace(recall=lambda *_: object()))
    conditions = (Condition(type="Scheduled", status=scheduled), Condition(type="Stalled", status=stalled))
    pages = DebugPages(Store(), UPSTREAM, lambda: state)
    shown = pages.last_decision(binding(status_conditions=conditions))
    assert shown == (explanation if is_shown else None)
