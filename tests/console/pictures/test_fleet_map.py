"""The map of the fleet is drawn for every size, with finite coordinates."""

import re

from hypothesis import given
from hypothesis import strategies as st

from trimtab.console.cluster_facts import MAX_LOAD, ClusterFacts
from trimtab.console.pictures import svg
from trimtab.console.pictures.fleet_map import MapCluster, MapFlow, MapRegion, draw_fleet_map

RUNS = st.lists(st.tuples(st.sampled_from(svg.KINDS), st.integers(0, 300)), max_size=5)


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
