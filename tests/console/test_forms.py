"""Forms: who may send them, and what they write."""

import asyncio
from typing import Any

import pytest

from console.fake_console import DRAIN, HOST, NOW, call, fill, new_console, signed_in
from trimtab.api.kinds.work import PendingApproval, TargetCluster
from trimtab.controllers.movement.approval import text_of
from trimtab.dryrun.plan_result import Plan


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


def test_host_of_the_tests_is_the_origin() -> None:
    """The refusals above are about the origin, not about a host that never matches."""
    console = new_console()
    fill(console)
    cookie, session = signed_in(console)
    form = {"csrf": session.csrf, "confirm": "web-c0"}
    answer = asyncio.run(call(console, DRAIN, method="POST", form=form, cookie=cookie, origin=f"https://{HOST}"))
    assert answer.code == 303


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
