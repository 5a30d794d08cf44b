"""Pages: what each user sees, and which parts of them follow the fleet."""

import asyncio
from typing import Any

import orjson

from console.fake_console import NOW, call, fill, new_console, signed_in
from trimtab.api.kinds.work import PendingApproval, TargetCluster
from trimtab.console.page import StoryFacts
from trimtab.console.pages.preview import LAST_APPLIED
from trimtab.dryrun.change import Change
from trimtab.dryrun.plan_result import Plan


def test_viewer_sees_one_namespace_and_no_buttons() -> None:
    console = new_console()
    fill(console)
    cookie, _ = signed_in(console, "viewer")
    view = orjson.loads(asyncio.run(call(console, "/workloads", cookie=cookie, accept="application/json")).body)
    assert {row["workload"]["namespace"] for row in view["rows"] if "workload" in row} == {"shop"}
    assert view["hidden"] == 1
    assert view["pulse"]["desired"] == 6, "counters leave out what is hidden"
    assert asyncio.run(call(console, "/workloads/hidden/Deployment/web", cookie=cookie)).code == 404
    assert asyncio.run(call(console, "/rebalance/web", cookie=cookie)).code == 404
    page = asyncio.run(call(console, "/clusters/web-c0", cookie=cookie)).text
    assert 'data-dialog="drain"' not in page
    assert "Needs patch on clusters.cluster.karmada.io" in page
    admin, _ = signed_in(console)
    assert asyncio.run(call(console, "/workloads/hidden/Deployment/web", cookie=admin)).code == 200


def test_buttons_and_forms_of_a_waiting_move_follow_the_binding_without_a_reload() -> None:
    console = new_console()
    fill(console)
    key = "shop/Deployment/web"
    old = console.model.bindings[key]
    pending = PendingApproval(cause="Rebalance", clusters=(TargetCluster(name="web-c1", replicas=3),), since=NOW)
    waiting = old.but(status=old.status.but(pending_approval=pending))
    _, session = signed_in(console)

    def live_parts() -> str:
        page, context = asyncio.run(console.pages.context(session, ("workloads", *key.split("/")), {}))
        values = console.pages.values(page, context, session)
        return "".join(console._renderer.part(page, name, values) for name in page.live if name != "pulse")

    assert 'data-dialog="approve"' not in live_parts()
    console.model.put_binding(waiting, old)
    shown = live_parts()
    assert 'data-dialog="approve"' in shown
    assert '<dialog id="approve"' in shown
    console.model.put_binding(old, waiting)
    assert 'id="approve"' not in live_parts()
    assert 'data-dialog="approve"' not in live_parts()


def test_buttons_of_a_cluster_follow_it_without_a_reload() -> None:
    console = new_console()
    fill(console)
    _, session = signed_in(console)
    page, context = asyncio.run(console.pages.context(session, ("clusters", next(iter(console.model.clusters))), {}))
    assert 'data-dialog="drain"' in console._renderer.part(
        page, "buttons", console.pages.values(page, context, session)
    )
    assert "buttons" in page.live


def test_preview_plans_objects_and_shows_a_policy_only_to_those_who_may_read_it() -> None:
    changes: list[Any] = []

    async def plan(change: Any, now: Any, user: str) -> Plan:
        changes.append(change)
        return Plan(hash="h1", change=change)

    known = Plan(hash="h1", change=Change(objects=({"apiVersion": "v1", "kind": "ConfigMap"},)))
    policy = {
        "kind": "PropagationPolicy",
        "metadata": {"name": "p", "uid": "secret-uid", "annotations": {LAST_APPLIED: "{old}"}},
        "spec": {"x": "stored"},
    }
    console = new_console(plan=plan, known_plan=lambda name: known if name == "h1" else None, policy=lambda *_: policy)
    fill(console)
    cookie, session = signed_in(console)
    page = asyncio.run(call(console, "/preview?policy=shop/p", cookie=cookie)).text
    assert "x: stored" in page
    assert "secret-uid" not in page
    assert "{old}" not in page
    viewer, _ = signed_in(console, "viewer")
    assert "x: stored" not in asyncio.run(call(console, "/preview?policy=shop/p", cookie=viewer)).text
    for text in ("a: [", "just text", ""):
        form = {"csrf": session.csrf, "objects": text}
        assert asyncio.run(call(console, "/preview/plan", method="POST", form=form, cookie=cookie)).code == 400
    form = {
        "csrf": session.csrf,
        "objects": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
        "policy": "shop/p",
    }
    answer = asyncio.run(call(console, "/preview/plan", method="POST", form=form, cookie=cookie))
    assert answer.headers["location"] == "/console/preview?policy=shop/p&plan=h1"
    assert changes == [Change(objects=({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},))]
    assert "kind: ConfigMap" in asyncio.run(call(console, "/preview?plan=h1", cookie=cookie)).text
    assert console._authority.clients == [], "nothing is written"


def test_search_finds_moves_namespaces_regions_and_stories() -> None:
    class Book:
        def add_listener(self, listener: Any) -> None:
            """Nothing changes."""

        def stories(self) -> list[StoryFacts]:
            return [StoryFacts("web-outage", "An outage of web")]

    console = new_console(stories=Book())
    fill(console)
    cookie, _ = signed_in(console)

    def kinds(words: str) -> set[str]:
        answer = asyncio.run(call(console, f"/search?q={words}", cookie=cookie, accept="application/json"))
        return {one["kind"] for one in orjson.loads(answer.body)["results"]}

    assert {"Cluster", "Deployment", "DisruptionBudget", "WorkloadRebalancer", "Move", "Story"} <= kinds("web")
    assert kinds("shop") >= {"Namespace", "Move"}
    assert "Region" in kinds("eu")
    assert kinds("no-such-thing") == set()
