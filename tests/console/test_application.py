"""Sign-in, cookies, CSRF, security headers and rights over HTTP."""

import asyncio
from typing import Any, cast

import orjson
import pytest
from builders import cluster

from console.fake_console import HOST, NOW, call, fill, new_console, signed_in
from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import PendingApproval, TargetCluster
from trimtab.console.messages import cookie_value
from trimtab.console.page import StoryFacts
from trimtab.console.pages.preview import LAST_APPLIED
from trimtab.console.sessions import COOKIE, IDLE, LIFETIME, Sessions
from trimtab.controllers.movement.approval import text_of
from trimtab.dryrun.change import Change
from trimtab.dryrun.plan_result import Plan
from trimtab.runtime.cache import Cache

DRAIN = "/clusters/web-c0/drain"


def test_every_response_has_a_strict_policy_and_is_not_stored() -> None:
    console = new_console()
    answer = asyncio.run(call(console, "/login"))
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_page_that_was_open_before_the_cache_was_there_is_filled() -> None:
    async def open_page_then_attach() -> list[str]:
        console = new_console()
        await console.start()  # as a browser that connects again does while the program starts
        cache = Cache(cast("Any", None))
        console.attach(cache)
        cache.table_of(Cluster).put(kind_of(Cluster).encode(cluster("m1")))
        return list(console.model.clusters)

    assert asyncio.run(open_page_then_attach()) == ["m1"]


def test_pages_need_a_session() -> None:
    console = new_console()
    assert asyncio.run(call(console, "/workloads")).code == 401
    assert asyncio.run(call(console, "/events?page=/console/")).code == 401
    assert asyncio.run(call(console, "/workloads", cookie="invented")).code == 401
    assert asyncio.run(call(console, DRAIN, method="POST", form={})).code == 401


def test_login_link_works_once_and_leaves_only_a_cookie() -> None:
    console = new_console()
    path = console.login_path("admin", "admin").removeprefix("/console")
    first = asyncio.run(call(console, path))
    assert first.code == 200
    (cookie,) = first.cookies
    assert cookie.startswith("__Host-trimtab=")
    for attribute in ("Secure", "HttpOnly", "SameSite=Strict", "Path=/"):
        assert attribute in cookie
    assert asyncio.run(call(console, path)).code == 403


def test_token_login_is_refused_for_unknown_tokens_and_leads_only_into_the_console() -> None:
    console = new_console()
    assert asyncio.run(call(console, "/login", method="POST", form={"token": "nobody"})).code == 403
    form = {"token": "viewer", "target": "https://evil.example/console/"}
    answer = asyncio.run(call(console, "/login", method="POST", form=form))
    assert answer.code == 200
    assert "evil.example" not in answer.text


@pytest.mark.parametrize(
    ("headers", "with_token"),
    [
        ({}, False),
        ({"origin": "https://evil.example"}, True),
        ({"origin": "null"}, True),
        ({"sec_fetch_site": "cross-site"}, True),
    ],
)
def test_form_of_another_site_is_refused(headers: dict[str, str], with_token: bool) -> None:
    console = new_console()
    fill(console)
    cookie, session = signed_in(console)
    form = {"confirm": "web-c0", **({"csrf": session.csrf} if with_token else {})}
    answer = asyncio.run(call(console, DRAIN, method="POST", form=form, cookie=cookie, **headers))
    assert answer.code == 403
    assert console._authority.clients == []


def test_drain_needs_the_typed_name_and_is_written_as_the_user_with_the_revision() -> None:
    console = new_console()
    fill(console)
    cookie, session = signed_in(console)
    wrong = {"csrf": session.csrf, "confirm": "web-c1"}
    assert asyncio.run(call(console, DRAIN, method="POST", form=wrong, cookie=cookie)).code == 422
    right = {"csrf": session.csrf, "confirm": "web-c0"}
    answer = asyncio.run(call(console, DRAIN, method="POST", form=right, cookie=cookie))
    assert (answer.code, answer.headers["location"]) == (303, "/console/clusters/web-c0")
    ((user, verb, resource, name, patch, options),) = console._authority.clients
    assert (user, verb, resource, name) == ("admin", "patch", "clusters", "web-c0")
    assert patch["metadata"]["resourceVersion"] == "7"
    assert options["manager"] == "trimtab-console"


def test_read_only_console_refuses_every_action() -> None:
    console = new_console(is_read_only=True)
    fill(console)
    cookie, session = signed_in(console)
    form = {"csrf": session.csrf, "confirm": "web-c0"}
    assert asyncio.run(call(console, DRAIN, method="POST", form=form, cookie=cookie)).code == 403
    page = asyncio.run(call(console, "/clusters/web-c0", cookie=cookie)).text
    assert 'data-dialog="drain"' not in page


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


def test_sign_out_ends_the_session() -> None:
    console = new_console()
    cookie, session = signed_in(console)
    asyncio.run(call(console, "/logout", method="POST", form={"csrf": session.csrf}, cookie=cookie))
    assert asyncio.run(call(console, "/", cookie=cookie)).code == 401


def test_static_files_are_cached_only_under_their_hash() -> None:
    console = new_console()
    assert "immutable" not in asyncio.run(call(console, "/static/console.css?v=other")).headers["cache-control"]
    assert asyncio.run(call(console, "/static/../application.py")).code == 404
    assert asyncio.run(call(console, "/static/secrets.txt")).code == 404


def test_session_survives_a_restart_and_its_file_has_no_token(tmp_path: Any) -> None:
    file = tmp_path / "sessions.json"
    cookie = Sessions(lambda: NOW, file).open("admin", "very-secret-token")
    assert b"very-secret-token" not in file.read_bytes()
    assert cookie.encode() not in file.read_bytes()
    assert file.stat().st_mode & 0o077 == 0
    found = Sessions(lambda: NOW, file).find(cookie)
    assert found is not None
    assert found.token == "very-secret-token"
    assert Sessions(lambda: NOW, file).find(cookie + "x") is None


def test_session_ends_when_it_is_idle_or_old() -> None:
    now = NOW
    sessions = Sessions(lambda: now)
    cookie = sessions.open("admin", "t")
    now += IDLE
    assert sessions.find(cookie) is None
    cookie = sessions.open("admin", "t")
    for _ in range(20):
        now += IDLE * 0.9
        found = sessions.find(cookie)
    assert LIFETIME < IDLE * 18
    assert found is None


def test_host_of_the_tests_is_the_origin() -> None:
    """The refusals above are about the origin, not about a host that never matches."""
    console = new_console()
    fill(console)
    cookie, session = signed_in(console)
    form = {"csrf": session.csrf, "confirm": "web-c0"}
    answer = asyncio.run(call(console, DRAIN, method="POST", form=form, cookie=cookie, origin=f"https://{HOST}"))
    assert answer.code == 303


def test_program_with_a_bearer_token_gets_json_without_a_cookie_or_a_form_token() -> None:
    console = new_console()
    fill(console)
    as_admin = {"authorization": "Bearer admin", "accept": "application/json"}
    assert asyncio.run(call(console, "/workloads", **as_admin)).code == 200
    assert (
        asyncio.run(call(console, "/workloads", authorization="Bearer nobody", accept="application/json")).code == 401
    )
    assert asyncio.run(call(console, "/workloads", authorization="Bearer admin")).code == 401, "browsers have cookies"
    answer = asyncio.run(call(console, DRAIN, method="POST", form={"confirm": "web-c0"}, **as_admin))
    assert (answer.code, orjson.loads(answer.body)) == (201, {"location": "/console/clusters/web-c0"})
    assert console._authority.clients[0][0] == "admin"
    cookie, _ = signed_in(console)
    both = asyncio.run(call(console, DRAIN, method="POST", form={"confirm": "web-c0"}, cookie=cookie, **as_admin))
    assert both.code == 403, "a cookie needs the form token, whatever else a request has"


def test_plan_that_has_changed_is_not_started_and_programs_get_a_conflict() -> None:
    async def plan(change: Any, now: Any, user: str) -> Plan:
        return Plan(hash="new")

    console = new_console(plan=plan, known_plan=lambda _: Plan(hash="old"))
    fill(console)
    cookie, session = signed_in(console)
    form = {"csrf": session.csrf, "selector": "", "kind": "Deployment", "hash": "old"}
    page = asyncio.run(call(console, "/rebalance/start", method="POST", form=form, cookie=cookie))
    assert page.code == 303
    assert "changed=old" in page.headers["location"]
    answer = asyncio.run(
        call(console, "/rebalance/start", method="POST", form=form, cookie=cookie, accept="application/json")
    )
    assert answer.code == 409
    assert console._authority.clients == []
    started = asyncio.run(
        call(console, "/rebalance/start", method="POST", form={**form, "hash": "new", "name": "x"}, cookie=cookie)
    )
    assert started.headers["location"] == "/console/rebalance/x"


def test_approval_releases_only_the_move_that_was_shown() -> None:
    console = new_console()
    fill(console)
    key = "shop/Deployment/web"
    old = console.model.bindings[key]
    pending = PendingApproval(cause="Rebalance", clusters=(TargetCluster(name="web-c1", replicas=3),), since=NOW)
    console.model.put_binding(old.but(status=old.status.but(pending_approval=pending)), old)
    cookie, session = signed_in(console)
    page = asyncio.run(call(console, f"/workloads/{key}", cookie=cookie)).text
    assert 'data-dialog="approve"' in page
    path = f"/workloads/{key}/approve"
    stale = {"csrf": session.csrf, "move": "Rebalance web-c0:3"}
    assert asyncio.run(call(console, path, method="POST", form=stale, cookie=cookie)).code == 422
    assert console._authority.clients == []
    shown = {"csrf": session.csrf, "move": text_of(pending)}
    assert asyncio.run(call(console, path, method="POST", form=shown, cookie=cookie)).code == 303
    ((_, verb, resource, _, patch, _),) = console._authority.clients
    assert (verb, resource) == ("patch", "resourcebindings")
    assert patch["metadata"]["annotations"] == {"trimtab.dev/approved-move": text_of(pending)}
    viewer, _ = signed_in(console, "viewer")
    assert 'data-dialog="approve"' not in asyncio.run(call(console, f"/workloads/{key}", cookie=viewer)).text


def test_buttons_and_forms_of_a_waiting_move_follow_the_binding_without_a_reload() -> None:
    console = new_console()
    fill(console)
    key = "shop/Deployment/web"
    old = console.model.bindings[key]
    pending = PendingApproval(cause="Rebalance", clusters=(TargetCluster(name="web-c1", replicas=3),), since=NOW)
    waiting = old.but(status=old.status.but(pending_approval=pending))
    _, session = signed_in(console)

    def live_parts() -> str:
        page, context = asyncio.run(console.context(session, ("workloads", *key.split("/")), {}))
        values = console.values(page, context, session)
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
    page, context = asyncio.run(console.context(session, ("clusters", next(iter(console.model.clusters))), {}))
    assert 'data-dialog="drain"' in console._renderer.part(page, "buttons", console.values(page, context, session))
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


def test_looking_at_a_login_link_with_head_does_not_use_it_up() -> None:
    console = new_console()
    path = console.login_path("admin", "admin").removeprefix("/console")
    seen = asyncio.run(call(console, path, method="HEAD"))
    assert (seen.code, seen.cookies) == (200, ())
    assert asyncio.run(call(console, path)).code == 200


def test_malformed_addresses_and_forms_are_refused() -> None:
    console = new_console()
    cookie, session = signed_in(console)
    assert asyncio.run(call(console, "/login", method="POST", form={}, origin="http://[::1")).code == 403
    assert asyncio.run(call(console, "/events?page=http://[", cookie=cookie)).code == 400
    assert asyncio.run(call(console, "/events?page=/%3F" + "a%3D1%26" * 101, cookie=cookie)).code == 400
    assert asyncio.run(call(console, "/?" + "a=1&" * 101, cookie=cookie)).code == 400
    form = {"csrf": session.csrf, **{f"f{number}": "" for number in range(10_001)}}
    assert asyncio.run(call(console, DRAIN, method="POST", form=form, cookie=cookie)).code == 400


def test_session_is_found_among_other_cookies_in_linear_time() -> None:
    quoted = '"' + "\\\\" * 15_000 + '"'
    assert cookie_value(f"a={quoted}; __Host-trimtab=id; b=c", COOKIE) == "id"
    assert cookie_value(f"a={quoted}", COOKIE) == ""
    assert cookie_value("__Host-trimtab", COOKIE) == ""
