"""Rebalance: what is started is what the plan of the page shows, also when workloads were left out of it."""

import asyncio
from typing import Any

import orjson
import pytest

from console.fake_console import NOW, call, fill, new_console, rebalance_job, signed_in
from trimtab.api.kinds.work import TargetCluster
from trimtab.api.value import Raw
from trimtab.console.application import Console
from trimtab.console.facts import rebalance_facts
from trimtab.console.page import PageContext
from trimtab.console.pages.rebalance import held_up, run
from trimtab.dryrun.change import Change
from trimtab.dryrun.plan_result import MOVE, Plan, PlannedWorkload

EXCLUDED = "shop/Deployment/web"


def planned(name: str) -> PlannedWorkload:
    share = TargetCluster(name="web-c0", replicas=2), TargetCluster(name="web-c1", replicas=2)
    return PlannedWorkload(workload=f"Deployment/shop/{name}", action=MOVE, before=share[:1], after=share[1:])


async def plan(change: Change, now: Any, user: str) -> Plan:
    """Everything that is selected moves; the hash says how it was selected."""
    spec: Raw = change.rebalance or {}
    names = [one["name"] for one in spec["workloads"]] if "workloads" in spec else ["web", "other"]
    return Plan(hash="+".join(names), workloads=tuple(planned(name) for name in names))


def console_with_plans() -> Console:
    console = new_console(plan=plan)
    fill(console)
    return console


def test_plan_without_a_workload_shows_it_as_left_out_and_is_that_of_the_others() -> None:
    console = console_with_plans()
    cookie, _ = signed_in(console)
    path = f"/rebalance/plan?kind=Deployment&exclude={EXCLUDED}"
    answer = asyncio.run(call(console, path, cookie=cookie, accept="application/json"))
    shown = orjson.loads(answer.body)["plan"]
    assert (shown["hash"], shown["workloads"], shown["moved"]) == ("other", 1, 2)
    assert {row["name"]: row["what"] for row in shown["rows"]} == {"other": "go", "web": "out"}


def test_workload_that_was_left_out_is_not_rebalanced() -> None:
    console = console_with_plans()
    cookie, session = signed_in(console)
    form = {"csrf": session.csrf, "kind": "Deployment", "exclude": EXCLUDED, "name": "x"}

    def start(digest: str) -> Any:
        return asyncio.run(
            call(console, "/rebalance/start", method="POST", form={**form, "hash": digest}, cookie=cookie)
        )

    assert "changed=" in start("web+other").headers["location"], "the plan of all is not the one that was shown"
    assert start("other").headers["location"] == "/console/rebalance/x"
    ((_, _, _, _, job, _),) = console._authority.clients
    assert [one["name"] for one in job["spec"]["workloads"]] == ["other"]


@pytest.mark.parametrize(
    ("phase", "told"), [("Done", "finished"), ("NoChange", "finished"), ("Failed", "finished, 1 failed")]
)
def test_rebalance_with_a_workload_that_failed_is_not_shown_as_done(phase: str, told: str) -> None:
    console = new_console()
    fill(console, "web")
    job = rebalance_job("web")
    (workload,) = job.status.observed_workloads
    status = job.status.but(observed_workloads=(workload.but(phase=phase),), finish_time=NOW)
    console.model.put_rebalance("web", job.but(status=status))
    cookie, _ = signed_in(console)
    for path in ("/rebalance", "/rebalance/web"):
        text = asyncio.run(call(console, path, cookie=cookie)).text
        assert f"{told}</span>" in text, path
        assert ('<span class="state s-done">' in text) == (phase != "Failed"), path


def test_aborted_rebalance_says_what_was_withdrawn() -> None:
    job = rebalance_job("web")
    (one,) = job.status.observed_workloads
    phases = ("Done", "NoChange", "Cancelled", "Cancelled")
    status = job.status.but(observed_workloads=tuple(one.but(phase=phase) for phase in phases))
    going = rebalance_facts(job.but(spec=job.spec.but(cancel=True), status=status.but(finish_time=None)))
    ended = rebalance_facts(job.but(spec=job.spec.but(cancel=True), status=status.but(finish_time=NOW)))
    assert (going.state, ended.state, ended.settled) == ("stop", "stop", 2)
    assert ended.progress == "2 of 4 are settled, 2 were withdrawn before the start."
    late = status.but(observed_workloads=tuple(one.but(phase=phase) for phase in ("Done", "Done")), finish_time=NOW)
    assert rebalance_facts(job.but(spec=job.spec.but(cancel=True), status=late)).state == "done"


def test_progress_of_a_rebalance_counts_in_singular_and_plural() -> None:
    job = rebalance_job("web")
    (one,) = job.status.observed_workloads
    phases = ("Done", "Moving", "Blocked", "Pending", "")
    status = job.status.but(observed_workloads=tuple(one.but(phase=phase) for phase in phases))
    told = rebalance_facts(job.but(status=status)).progress
    assert told == "1 of 5 is settled, 1 moves, 1 is blocked, 2 wait for their turn."


def test_workloads_that_wait_keep_the_places_of_a_rebalance() -> None:
    rows = [
        {"kind": "Deployment", "namespace": "n", "name": name, "what": what}
        for name, what in (("d", "go"), ("a", "wait"), ("b", "go"), ("c", "wait"), ("e", "same"))
    ]
    assert held_up(rows, 1) == 2
    assert held_up(rows, 2) == 1
    assert held_up(rows, 3) == 0


def test_rebalance_whose_places_are_all_kept_says_so() -> None:
    console = new_console()
    fill(console)
    job = rebalance_job("web")
    (item,) = job.status.observed_workloads
    waiting = item.but(phase="Blocked", message="Rebalance: budget web requires an approval: trimtab approve web")
    pending = item.but(workload=item.workload.but(name="other"), phase="Pending")
    spec, status = job.spec.but(max_parallel=1), job.status.but(observed_workloads=(waiting, pending))
    console.model.put_rebalance("web", job.but(spec=spec, status=status))
    context = PageContext(console.model, NOW, segments=("web",))
    assert run(context)["is_full"]
    assert run(context)["rows"][0]["message"].startswith("rebalance: budget web")
    console.model.put_rebalance("web", job.but(spec=spec.but(max_parallel=2), status=status))
    assert not run(context)["is_full"]
