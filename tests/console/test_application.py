"""Requests over HTTP: security headers, static files, malformed addresses, cookies and sessions."""

import asyncio
from typing import Any

from console.fake_console import DRAIN, NOW, call, new_console, signed_in
from trimtab.console.messages import cookie_value
from trimtab.console.sessions import COOKIE, IDLE, LIFETIME, Sessions


def test_every_response_has_a_strict_policy_and_is_not_stored() -> None:
    console = new_console()
    answer = asyncio.run(call(console, "/login"))
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


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
