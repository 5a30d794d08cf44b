"""Slow pages are shown before they are computed, and a drill says what is lost, what is replaced and what would help."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from console.fake_console import NOW, call, fill, new_console, signed_in
from trimtab.api.kinds.work import TargetCluster
from trimtab.console.page import PageContext
from trimtab.console.pages.drill import drill, fates_of
from trimtab.dryrun.change import Change
from trimtab.dryrun.plan_result import (
    LATER,
    MOVE,
    REFUSED,
    ClusterLoad,
    Plan,
    PlannedMove,
    PlannedRefusal,
    PlannedWorkload,
)
from trimtab.stories.story import read_story

PATH = "/drill?fail=cluster:web-c0"


def shares(**counts: int) -> tuple[TargetCluster, ...]:
    return tuple(TargetCluster(name=name.replace("_", "-"), replicas=count) for name, count in counts.items())


def drill_plan() -> Plan:
    """One workload moves, another has nowhere to go, a third one only waits for a rebalance."""
    moved, stuck, other = "Deployment/shop/web", "Deployment/hidden/web", "Deployment/shop/other"
    return Plan(
        workloads=(
            PlannedWorkload(workload=moved, action=MOVE, before=shares(web_c0=3), after=shares(web_c1=3), start=LATER),
            PlannedWorkload(
                workload=stuck,
                action=REFUSED,
                before=shares(web_c0=4),
                after=shares(web_c0=4),
                refusal=PlannedRefusal(code="NoFeasibleCluster", message="no cluster fits"),
            ),
            PlannedWorkload(workload=other, action=MOVE, before=shares(web_c1=5), after=shares(web_c2=5)),
        ),
        moves=(
            PlannedMove(workload=moved, cause="ClusterFailover", source="web-c0", to=shares(web_c1=3), replicas=3),
            PlannedMove(workload=other, cause="Rebalance", source="web-c1", to=shares(web_c2=5), replicas=5),
        ),
        load=(
            ClusterLoad(cluster="web-c0", is_lost=True),
            ClusterLoad(cluster="web-c1"),
            ClusterLoad(cluster="web-c2"),
        ),
        evacuation_starts_after=330.0,
    )


async def make_plan(change: Change, now: datetime, user: str) -> Plan:
    assert change.lose_clusters == ("web-c0",)
    return drill_plan()


def get(path: str, user: str = "admin", **headers: str) -> Any:
    console = new_console(plan=make_plan)
    fill(console)
    cookie, _ = signed_in(console, user)
    return asyncio.run(call(console, path, cookie=cookie, **headers))


def test_browser_gets_the_page_at_once_and_its_script_the_result() -> None:
    first = get(PATH).text
    assert 'data-fill aria-busy="true"' in first
    assert "would be down" not in first
    assert "wait=1" in first, "a browser without script can follow a link"
    for answer in (get(PATH, x_trimtab_fetch="1"), get(f"{PATH}&wait=1")):
        assert "data-fill" not in answer.text
        assert "would be down" in answer.text


def test_drill_counts_only_what_the_failure_takes() -> None:
    result = orjson.loads(get(PATH, accept="application/json").body)["result"]
    assert (result["hit"], result["landed"], result["down_count"]) == (7, 3, 1)
    assert [flow["source"] for flow in result["flows"]] == ["web-c0"], "moves that happen anyway are no part of it"
    assert [row["key"] for row in result["rows"]] == ["hidden/Deployment/web", "shop/Deployment/web"]


def test_drill_says_when_and_that_the_storm_brake_may_stop_it() -> None:
    result = orjson.loads(get(PATH, accept="application/json").body)["result"]
    assert [at for _, at, _ in result["timeline"]][:2] == ["0 s", "30 s"]
    assert result["dark"] == 2


def test_drill_leaves_out_hidden_namespaces() -> None:
    result = orjson.loads(get(PATH, "viewer", accept="application/json").body)["result"]
    assert [row["key"] for row in result["rows"]] == ["shop/Deployment/web"]
    assert (result["hit"], result["down_count"]) == (3, 0)


def test_wrong_selection_is_refused_before_anything_is_computed() -> None:
    assert get("/drill?fail=planet:mars").code == 400
    assert get("/rebalance/plan?selector=a%20in").code == 400


def test_drill_can_be_copied_as_a_story(tmp_path: Path) -> None:
    result = orjson.loads(get(PATH, accept="application/json").body)["result"]
    file = tmp_path / "lose.yaml"
    file.write_text(result["story"])
    story = read_story(file)
    assert story.name == "Lose web-c0"
    assert len(story.timeline) == 2


def test_without_a_failure_the_page_says_what_each_cluster_has_to_lose() -> None:
    console = new_console()
    fill(console)
    rows = drill(PageContext(console.model, NOW))["exposure"]
    assert (rows[0]["cluster"].name, rows[0]["workloads"], rows[0]["only"]) == ("web-c0", 2, 0)
    only = console.model.bindings["shop/Deployment/web"]
    placed = only.but(spec=only.spec.but(clusters=only.spec.clusters[1:]), status=only.status.but(holds=()))
    console.model.put_binding(placed, only)
    rows = drill(PageContext(console.model, NOW))["exposure"]
    assert (rows[0]["cluster"].name, rows[0]["only"]) == ("web-c1", 1)
    assert drill(PageContext(console.model, NOW, query={"fail": "cluster:web-c0"}))["exposure"] == []


def test_clusters_of_the_first_page_have_states_of_clusters() -> None:
    async def look() -> None:
        console = new_console()
        fill(console)
        body = (await call(console, "/drill", cookie=signed_in(console)[0])).text
        table = body[body.index("What each cluster has to lose") :]
        assert "ready</span>" in table
        assert "placed" not in table

    asyncio.run(look())


def test_what_becomes_of_lost_replicas_adds_up() -> None:
    def row(what: str, lost: int, landed: int = 0, *, is_copied: bool = False) -> dict[str, Any]:
        return {"what": what, "lost": lost, "landed": landed, "is_copied": is_copied}

    rows = [row("go", 3, 3), row("go", 2, is_copied=True), row("wait", 5, 1), row("none", 1)]
    assert fates_of(rows) == [
        "4 start elsewhere",
        "2 are copies of what goes on in other clusters",
        "4 have no room elsewhere",
        "1 finds no place",
    ]


def test_drill_names_the_region_that_fails_and_its_clusters() -> None:
    console = new_console()
    fill(console)
    view = drill(PageContext(console.model, NOW, query={"fail": "region:eu"}, extra=drill_plan()))["result"]
    assert (view["title"], view["who"]) == ("What if the region eu fails?", "web-c0 fails.")
    view = drill(PageContext(console.model, NOW, query={"fail": "cluster:web-c0"}, extra=drill_plan()))["result"]
    assert (view["title"], view["who"]) == ("What if web-c0 fails?", "")
