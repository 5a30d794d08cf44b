"""Flows: as much arrives as leaves, with finite coordinates."""

import re

from hypothesis import given
from hypothesis import strategies as st

from trimtab.console.pictures.fleet_map import MapFlow
from trimtab.console.pictures.flow import draw_flows

NUMBER = re.compile(r"(?:nan|inf)", re.IGNORECASE)
NAMES = st.sampled_from(["ams-1", "dub-1", "iad-1", "nrt-1", 'x"><b>'])


@given(flows=st.lists(st.tuples(NAMES, NAMES, st.integers(1, 50)), max_size=8))
def test_what_leaves_on_the_left_arrives_on_the_right(flows: list[tuple[str, str, int]]) -> None:
    drawn = draw_flows([MapFlow(source=a, target=b, cause="Drain", replicas=n) for a, b, n in flows])
    out = [int(count) for count in re.findall(r"\u2212(\d+)</tspan>", drawn)]
    into = [int(count) for count in re.findall(r"\+(\d+)</tspan>", drawn)]
    assert sum(out) == sum(into) == sum(count for _, _, count in flows)
    assert not NUMBER.search(drawn.replace("line", ""))
    assert "<b>" not in drawn
