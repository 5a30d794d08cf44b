"""Every page, with ordinary and with hostile names: what a name contains never becomes an element or an attribute."""

import asyncio
import re
from html.parser import HTMLParser
from importlib import resources
from urllib.parse import quote

import pytest

from console.fake_console import call, fill, new_console, one_move, signed_in
from trimtab.api.kinds.work import TargetCluster
from trimtab.console.page import pages
from trimtab.console.pages.rebalance import plan_row
from trimtab.dryrun.plan_result import PlannedRefusal, PlannedWorkload

HOSTILE = '"><img src=x onerror=alert(1)>\u202e{{1234567*7}}javascript:'
LONG = "w" * 4096
WAITS = PlannedRefusal(code="Wait", message="wait")


def paths_of(word: str) -> list[str]:
    name = quote(word, safe="")
    return [
        "/",
        "/workloads",
        "/workloads?q=web&state=ok,move&sort=state",
        "/workloads?by=policy",
        "/workloads?by=cluster",
        f"/workloads/shop/Deployment/{name}",
        f"/clusters/{name}-c0",
        f"/clusters/{name}-c2",
        "/moves",
        "/moves?outcome=going&cause=Rebalance",
        "/rebalance",
        "/rebalance/plan",
        f"/rebalance/{name}",
        "/drill",
        "/budgets",
        "/placements",
        "/stories",
        f"/search?q={quote(word[:100], safe='')}",
        f"/incident?cluster={name}-c2",
        f"/preview?policy=shop/{name}",
    ]


class Elements(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.bad: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.bad.append(f"{tag} {name}")
            if name in ("href", "src", "action") and (value or "").strip().lower().startswith("javascript:"):
                self.bad.append(f"{tag} {name}={value}")
            if name == "id" and value:
                self.ids.append(value)


def parse(text: str) -> Elements:
    elements = Elements()
    elements.feed(text)
    return elements


@pytest.mark.parametrize("word", ["web", HOSTILE, LONG], ids=["ordinary", "hostile", "long"])
def test_pages_show_names_as_text(word: str) -> None:
    console = new_console()
    fill(console, word)
    cookie, _ = signed_in(console)
    for path in paths_of(word):
        answer = asyncio.run(call(console, path, cookie=cookie))
        assert answer.code == 200, (path, answer.text[:400])
        elements = parse(answer.text)
        assert "img" not in elements.tags, path
        assert "iframe" not in elements.tags, path
        assert elements.tags.count("script") == 1, path
        assert elements.bad == [], path
        assert len(elements.ids) == len(set(elements.ids)), path
        assert elements.tags.count("h1") == 1, path
        assert "8641969" not in answer.text, "names are not templates"


@pytest.mark.parametrize("word", ["web", HOSTILE])
def test_pages_give_their_view_model_as_json(word: str) -> None:
    console = new_console()
    fill(console, word)
    cookie, _ = signed_in(console)
    for path in paths_of(word):
        answer = asyncio.run(call(console, path, cookie=cookie, accept="application/json"))
        assert answer.code == 200, path
        assert answer.headers["content-type"] == "application/json"
        assert b'"pulse"' in answer.body


def test_live_parts_are_blocks_and_elements_of_their_pages() -> None:
    console = new_console()
    fill(console)
    cookie, _ = signed_in(console)
    for path in paths_of("web"):
        segments = tuple(part for part in path.partition("?")[0].split("/") if part)
        page = next(one for one in pages.values() if one.match(segments) is not None and len(one.path) == len(segments))
        text = asyncio.run(call(console, path, cookie=cookie)).text
        ids = parse(text).ids
        matching = [one for one in pages.values() if one.match(segments) is not None]
        page = min(matching, key=lambda one: len(one.match(segments) or ()))
        for name in (*page.live, *page.rows):
            assert name in ids, (path, name)


def test_templates_have_no_inline_style_or_script_and_trust_no_text() -> None:
    for file in resources.files("trimtab.console").joinpath("templates").iterdir():
        text = file.read_text()
        assert "|safe" not in text, file.name
        assert "style=" not in text, file.name
        assert "<script>" not in text, file.name
        assert "autoescape false" not in text, file.name


@pytest.mark.parametrize(
    ("row", "what", "note"),
    [
        (PlannedWorkload(workload="Deployment/n/a", action="Move"), "go", "at once"),
        (
            PlannedWorkload(workload="Deployment/n/a", action="Move", start="InSteps", refusal=WAITS),
            "go",
            "in steps: wait",
        ),
        (PlannedWorkload(workload="Deployment/n/a", action="Move", start="Later", refusal=WAITS), "wait", "wait"),
        (PlannedWorkload(workload="Deployment/n/a", action="Move", start="Later", is_pending=True), "anyway", "later"),
        (PlannedWorkload(workload="Deployment/n/a", action="Refused", note="no room"), "none", "no room"),
    ],
)
def test_rows_of_a_plan_say_when_they_begin_and_what_happens_anyway(row: PlannedWorkload, what: str, note: str) -> None:
    before = (TargetCluster(name="c1", replicas=2),)
    shown = plan_row(row.but(before=before, after=(TargetCluster(name="c2", replicas=2),)), [])
    assert (shown["what"], shown["note"], shown["moved"]) == (what, note, 2)


def test_users_who_may_not_list_clusters_see_no_numbers_of_clusters() -> None:
    console = new_console()
    fill(console)

    def fleet_page(user: str) -> str:
        cookie, _ = signed_in(console, user)
        return asyncio.run(call(console, "/", cookie=cookie)).text

    assert "clusters ready" in fleet_page("admin")
    assert "storm brake" in fleet_page("admin")
    hidden = fleet_page("stranger")
    assert "You may not list clusters" in hidden
    assert "clusters ready" not in hidden
    assert "storm brake" not in hidden
    assert "no budgets" in hidden


def test_patterns_of_fields_are_valid_in_browsers() -> None:
    """Browsers read them with the flag `v`, in which a hyphen in a set is escaped; a wrong pattern checks nothing."""
    templates = resources.files("trimtab.console") / "templates"
    patterns = [found for file in templates.iterdir() for found in re.findall(r'pattern="([^"]*)"', file.read_text())]
    assert patterns
    assert not [pattern for pattern in patterns if re.search(r"\[-|-\]", pattern)]


def test_one_replica_under_way_is_not_called_replicas() -> None:
    console = new_console()
    fill(console)
    cookie, _ = signed_in(console)
    assert "<b>2</b> replicas under way" in asyncio.run(call(console, "/moves", cookie=cookie)).text
    console.model.put_move("shop/m1", one_move("web", replicas=1))
    assert "<b>1</b> replica under way" in asyncio.run(call(console, "/moves", cookie=cookie)).text


def test_users_of_small_screens_can_sign_out() -> None:
    console = new_console()
    fill(console)
    cookie, _ = signed_in(console)
    footer = asyncio.run(call(console, "/", cookie=cookie)).text.partition("<footer")[2].partition("</footer>")[0]
    assert 'action="/console/logout"' in footer
    assert 'name="csrf"' in footer


def test_a_drill_says_what_is_missing_to_users_who_may_not_list_clusters() -> None:
    console = new_console()
    fill(console)
    cookie, _ = signed_in(console, "stranger")
    assert "A drill needs list on clusters" in asyncio.run(call(console, "/drill", cookie=cookie)).text
