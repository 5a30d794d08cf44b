"""Sign-in, cookies, CSRF, security headers and rights over HTTP."""

import asyncio
from typing import Any

import orjson
import pytest

from console.fake_console import HOST, NOW, call, fill, new_console, signed_in
from trimtab.console.sessions import IDLE, LIFETIME, Sessions

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
