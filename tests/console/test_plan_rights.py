"""Plans show and read much, so they need rights, tell nothing about hidden namespaces, and take little of the event loop."""

import asyncio
import threading
from typing import Any

import orjson
import pytest

from console.fake_console import call, fill, new_console, signed_in
from trimtab.api.kinds.work import TargetCluster
from trimtab.client.client import Resource
from trimtab.console import page_responses
from trimtab.console.messages import MAX_FORM_BYTES
from trimtab.console.pages import preview, rebalance
from trimtab.dryrun.plan_result import MOVE, BudgetCost, Plan, PlannedMove, PlannedWorkload, Verdict
from trimtab.server.request import large_objects

POLICY = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: p, namespace: %s}\n"
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
SELECTION = "/rebalance/plan?selector=&kind=Deployment"


def planned(namespace: str, name: str = "web") -> PlannedWorkload:
    return PlannedWorkload(
        workload=f"Deployment/{namespace}/{name}",
        action=MOVE,
        before=(TargetCluster(name="web-c0", replicas=1),),
        after=(TargetCluster(name="web-c1", replicas=1),),
    )


def whole_plan(rows: int = 1) -> Plan:
    """A plan about the namespace `shop`, and about one that the viewer may not see."""
    return Plan(
        hash="h",
        verdict=Verdict(outcome="Changes", message="Two workloads move: Deployment/hidden/web"),
        workloads=(planned("hidden"), *(planned("shop", f"web{number}") for number in range(rows))),
        moves=tuple(
            PlannedMove(
                workload=f"Deployment/{space}/web",
                cause="Rebalance",
                source=f"web-c{number}",
                replicas=1,
                to=(TargetCluster(name="web-c1", replicas=1),),
            )
            for number, space in ((0, "shop"), (2, "hidden"))
        ),
        budgets=(BudgetCost(budget="shop/b", lost=1), BudgetCost(budget="hidden/b", lost=1)),
        warnings=("Deployment/hidden/web: no room", "Deployment/shop/web: no room", "budget hidden/b: broken"),
    )


def planning_console(made: list[Any] | None = None, rows: int = 1, **services: Any) -> Any:
    async def plan(change: Any, now: Any, user: str) -> Plan:
        if made is not None:
            made.append((user, change))
        return whole_plan(rows)

    console = new_console(plan=plan, known_plan=lambda _: whole_plan(), resource=lambda *_: POLICIES, **services)
    fill(console)
    return console


def ask(console: Any, user: str, path: str, form: dict[str, str] | None = None) -> Any:
    cookie, session = signed_in(console, user)
    options: dict[str, Any] = {"cookie": cookie, "accept": "application/json"}
    if form is not None:
        options |= {"method": "POST", "form": {"csrf": session.csrf, **form}}
    return asyncio.run(call(console, path, **options))


def test_who_may_not_list_clusters_gets_no_plan() -> None:
    made: list[Any] = []
    console = planning_console(made)
    assert ask(console, "stranger", SELECTION).code == 403
    assert ask(console, "stranger", "/rebalance/start", {"selector": "", "kind": "Deployment", "hash": "h"}).code == 403
    assert ask(console, "stranger", "/preview/plan", {"objects": POLICY % "shop"}).code == 403
    assert orjson.loads(ask(console, "stranger", "/drill?fail=cluster:web-c0").body)["result"] is None
    assert orjson.loads(ask(console, "stranger", "/preview?plan=h").body)["plan"] is None
    assert made == []


def test_preview_compares_only_with_objects_that_the_user_may_read() -> None:
    made: list[Any] = []
    console = planning_console(made)
    assert ask(console, "viewer", "/preview/plan", {"objects": POLICY % "hidden"}).code == 403
    assert made == []
    assert ask(console, "admin", "/preview/plan", {"objects": POLICY % "hidden"}).code == 201
    assert [user for user, _ in made] == ["admin"]


def test_plan_tells_nothing_about_hidden_namespaces() -> None:
    console = planning_console()
    plan = orjson.loads(ask(console, "viewer", SELECTION).body)["plan"]
    assert [row["namespace"] for row in plan["rows"]] == ["shop"]
    assert [flow["source"] for flow in plan["flows"]] == ["web-c0"]
    assert [cost["budget"] for cost in plan["budgets"]] == ["shop/b"]
    assert plan["warnings"] == ["Deployment/shop/web: no room"]
    assert b"hidden/" not in ask(console, "viewer", SELECTION).body
    assert b"hidden/" not in ask(console, "viewer", "/preview?plan=h").body
    drilled = ask(console, "viewer", "/drill?fail=cluster:web-c0").body
    assert b"hidden/" not in drilled
    everything = orjson.loads(ask(console, "admin", SELECTION).body)["plan"]
    assert len(everything["rows"]) == 2
    assert len(everything["budgets"]) == 2
    assert len(everything["warnings"]) == 3


def test_changed_plan_tells_nothing_about_hidden_namespaces() -> None:
    async def plan(change: Any, now: Any, user: str) -> Plan:
        return Plan(hash="new")

    console = new_console(plan=plan, known_plan=lambda _: whole_plan())
    fill(console)
    page = orjson.loads(ask(console, "viewer", f"{SELECTION}&changed=h").body)
    assert [line.partition(":")[0] for line in page["differences"]] == ["Deployment/shop/web0"]
    answer = ask(console, "viewer", "/rebalance/start", {"selector": "", "kind": "Deployment", "hash": "h"})
    assert answer.code == 409
    assert b"hidden/" not in answer.body


def test_moves_name_no_clusters_to_who_may_not_list_them() -> None:
    console = planning_console()
    page = orjson.loads(ask(console, "stranger", "/moves").body)
    assert (page["order"], page["lost"]) == ([], [])
    assert orjson.loads(ask(console, "viewer", "/moves").body)["lost"] == ["web-c2"]


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: [ConfigMap]\nmetadata: {name: x}",
        "apiVersion: 1\nkind: 2\nmetadata: {name: x}",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: []",
        "apiVersion: v1\nkind: ConfigMap",
        "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap}]",
        "apiVersion: v1\nkind: List\nitems: [" + "{apiVersion: v1, kind: Pod, metadata: {name: x}}, " * 51 + "]",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: [" + "a, " * 20_000 + "]",
        "[" * 100_000,
        "#" * 200_000,
    ],
)
def test_text_that_is_no_small_object_is_refused(text: str) -> None:
    made: list[Any] = []
    assert ask(planning_console(made), "admin", "/preview/plan", {"objects": text}).code == 400
    assert made == []


def test_large_texts_are_read_and_written_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    outside: list[str] = []
    run = large_objects.run

    async def recording(large: bool, function: Any, *arguments: Any) -> Any:
        if large:
            outside.append(function.__name__)
        return await run(large, function, *arguments)

    for module in (page_responses.large_objects, preview.large_objects):
        monkeypatch.setattr(module, "run", recording)
    console = planning_console()
    ask(console, "admin", "/preview/plan", {"objects": POLICY % "shop" + "#" * 20_000})
    ask(console, "admin", "/preview?plan=h")
    assert outside == ["form", "objects_in", "text_of"]
    assert ask(console, "admin", "/preview/plan", {"objects": "#" * MAX_FORM_BYTES}).code == 400


def test_pages_of_large_plans_and_runs_are_short() -> None:
    many = rebalance.MAX_ROWS + 20
    console = planning_console(rows=many)
    plan = orjson.loads(ask(console, "admin", SELECTION).body)["plan"]
    assert (len(plan["rows"]), plan["more"], plan["counts"]["go"]) == (rebalance.MAX_ROWS, 21, many + 1)
    long = ",".join(f"shop/Deployment/{number}" for number in range(1000))
    assert ask(console, "admin", f"/rebalance/plan?workload={long}").code == 400


def test_drill_of_very_many_names_is_refused() -> None:
    console = planning_console()
    assert ask(console, "admin", "/drill?fail=" + "cluster:web-c0," * 101).code == 400
    assert ask(console, "admin", "/drill?fail=cluster:web-c0").code == 200


def test_templates_are_compiled_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []
    console = planning_console()
    compile_ = console._renderer.compile

    def noting(page: Any) -> None:
        threads.append(threading.current_thread() is threading.main_thread())
        compile_(page)

    monkeypatch.setattr(console._renderer, "compile", noting)
    cookie, _ = signed_in(console, "admin")
    for _ in range(2):
        assert asyncio.run(call(console, "/moves", cookie=cookie)).code == 200
    assert threads == [False]


def test_drill_for_real_needs_clusters() -> None:
    failed: list[str] = []

    async def inject(name: str, fails: bool) -> None:
        failed.append(name)

    console = planning_console(inject_fault=inject, simulated=lambda: frozenset({"web-c0"}))
    assert ask(console, "admin", "/drill/run", {"clusters": ",", "confirm": "0 clusters"}).code == 422
    answer = ask(console, "admin", "/drill/run", {"clusters": "web-c0,web-c0", "confirm": "web-c0"})
    assert (answer.code, failed) == (201, ["web-c0"])


def test_members_recover_together_for_those_who_may_patch_them() -> None:
    done: list[tuple[str, bool]] = []

    async def inject(name: str, fails: bool) -> None:
        done.append((name, fails))

    console = planning_console(inject_fault=inject, simulated=lambda: frozenset({"web-c0", "web-c1"}))
    assert ask(console, "admin", "/drill/recover", {"clusters": "web-c0,web-c2"}).code == 422
    assert done == [], "a cluster that is not simulated is refused before anything is changed"
    assert ask(console, "admin", "/drill/recover", {"clusters": "web-c0,web-c1"}).code == 201
    assert done == [("web-c0", False), ("web-c1", False)]
    writes = [(one[0], one[1], one[3]) for one in console._authority.clients]
    assert writes == [("admin", "patch", "web-c0"), ("admin", "patch", "web-c1")], "the API decides who may do it"
