"""Pictures: as many dots as replicas, as much goes in as comes out, and only finite coordinates."""

import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from trimtab.console.facts import MAX_LOAD, ClusterFacts, MoveFacts
from trimtab.console.pictures import svg
from trimtab.console.pictures.charts import LoadChange, draw_load_change, draw_meter, draw_score
from trimtab.console.pictures.fleet_map import MapCluster, MapFlow, MapRegion, draw_fleet_map
from trimtab.console.pictures.flow import draw_flows
from trimtab.console.pictures.history import draw_history, links_between, stages_of

NUMBER = re.compile(r"(?:nan|inf)", re.IGNORECASE)
NAMES = st.sampled_from(["ams-1", "dub-1", "iad-1", "nrt-1", 'x"><b>'])
RUNS = st.lists(st.tuples(st.sampled_from(svg.KINDS), st.integers(0, 300)), max_size=5)
PLACEMENT = st.dictionaries(NAMES, st.integers(1, 40), min_size=1, max_size=4)


@given(runs=RUNS, per_row=st.integers(1, 40))
def test_there_are_as_many_dots_as_replicas(runs: list[tuple[str, int]], per_row: int) -> None:
    drawn = svg.dots(runs, 0, 0, per_row)
    widths = [int(width) for width in re.findall(r'width="(\d+)"', drawn)]
    assert sum(widths) == svg.DOT * sum(count for _, count in runs)
    assert all(width <= per_row * svg.DOT for width in widths)


@given(flows=st.lists(st.tuples(NAMES, NAMES, st.integers(1, 50)), max_size=8))
def test_what_leaves_on_the_left_arrives_on_the_right(flows: list[tuple[str, str, int]]) -> None:
    drawn = draw_flows([MapFlow(source=a, target=b, cause="Drain", replicas=n) for a, b, n in flows])
    out = [int(count) for count in re.findall(r"\u2212(\d+)</tspan>", drawn)]
    into = [int(count) for count in re.findall(r"\+(\d+)</tspan>", drawn)]
    assert sum(out) == sum(into) == sum(count for _, _, count in flows)
    assert not NUMBER.search(drawn.replace("line", ""))
    assert "<b>" not in drawn


@given(before=PLACEMENT, after=PLACEMENT)
def test_links_between_two_stages_conserve_replicas(before: dict[str, int], after: dict[str, int]) -> None:
    links = links_between(before, after, "Drain")
    for name, count in before.items():
        assert sum(n for source, _, n, _ in links if source == name) <= count
    for name, count in after.items():
        assert sum(n for _, target, n, _ in links if target == name) <= count
    assert sum(n for _, _, n, _ in links) == min(sum(before.values()), sum(after.values()))


def move(number: int, source: str, target: str, replicas: int) -> MoveFacts:
    return MoveFacts(
        namespace="shop",
        id=f"shop/m{number}",
        kind="Deployment",
        name="web",
        cause="Drain",
        source=source,
        targets=((target, replicas),),
        replicas=replicas,
        outcome="Done",
        started=datetime(2026, 11, 16, 16, number, tzinfo=UTC),
        generation=str(number),
    )


def test_history_takes_moves_back_one_decision_at_a_time() -> None:
    stages = stages_of({"iad-1": 3, "dub-1": 1}, [move(2, "ams-1", "iad-1", 2), move(1, "nrt-1", "ams-1", 2)])
    assert [stage.placement for stage in stages] == [
        {"iad-1": 1, "dub-1": 1, "nrt-1": 2},
        {"iad-1": 1, "dub-1": 1, "ams-1": 2},
        {"iad-1": 3, "dub-1": 1},
    ]
    drawn = draw_history(stages, {"iad-1": [("ready", 3)]})
    assert drawn.count('class="rb Drain"') == 2


@given(count=st.integers(0, 200), cpu=st.floats(0, 1e6), used=st.floats(0, 1e6), runs=RUNS)
def test_map_is_drawn_for_every_size_of_fleet(count: int, cpu: float, used: float, runs: list[tuple[str, int]]) -> None:
    clusters = [
        MapCluster(facts=ClusterFacts(name=f"c{n}", state="ok", region=f"r{n % 7}", cpu=cpu, cpu_used=used), runs=runs)
        for n in range(count)
    ]
    regions = [
        MapRegion(name=f"r{n}", clusters=tuple(one for one in clusters if one.facts.region == f"r{n}"))
        for n in range(7)
    ]
    flows = [MapFlow(source="c0", target=f"c{n}", cause="Rebalance", replicas=n) for n in range(1, min(count, 9))]
    drawn = draw_fleet_map([region for region in regions if region.clusters], flows)
    assert drawn.count("<a ") == count
    assert not re.search(r'"-?(?:nan|inf)', drawn)


def test_cluster_that_reports_next_to_no_cpu_is_drawn() -> None:
    facts = ClusterFacts(name="c", state="ok", region="r", cpu=5e-324, cpu_used=8.0)
    assert facts.load == MAX_LOAD
    regions = [MapRegion(name="r", clusters=(MapCluster(facts=facts),) * 200)]
    assert draw_fleet_map(regions, []).count(" l4") == 200


def test_small_charts_stay_inside_their_frames() -> None:
    assert draw_meter(5, 2).count('class="used"') == 2
    assert 'width="22"' in draw_score(1e9)
    drawn = draw_load_change(
        [LoadChange(name="a", region="r", now=-1, then=9), LoadChange(name="b", region="s", now=0, then=0, lost=True)]
    )
    assert "lost" in drawn
    assert "900 %" in drawn
