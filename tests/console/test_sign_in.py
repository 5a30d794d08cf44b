"""Sign-in: sessions, login links, tokens of users and of programs."""

import asyncio

import orjson

from console.fake_console import DRAIN, call, fill, new_console, signed_in


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


def test_sign_out_ends_the_session() -> None:
    console = new_console()
    cookie, session = signed_in(console)
    asyncio.run(call(console, "/logout", method="POST", form={"csrf": session.csrf}, cookie=cookie))
    assert asyncio.run(call(console, "/", cookie=cookie)).code == 401


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


def test_looking_at_a_login_link_with_head_does_not_use_it_up() -> None:
    console = new_console()
    path = console.login_path("admin", "admin").removeprefix("/console")
    seen = asyncio.run(call(console, path, method="HEAD"))
    assert (seen.code, seen.cookies) == (200, ())
    assert asyncio.run(call(console, path)).code == 200
