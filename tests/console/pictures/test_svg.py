"""Helpers of all pictures: numbers without noise, dots that stand for replicas."""

import re

from hypothesis import given
from hypothesis import strategies as st

from trimtab.console.pictures import svg
from trimtab.console.pictures.svg import DOT, dot_count, dots, num, picture, ribbon

RUNS = st.lists(st.tuples(st.sampled_from(svg.KINDS), st.integers(0, 300)), max_size=5)


def test_coordinates_have_one_decimal_at_most() -> None:
    assert [num(value) for value in (1, 1.04, 1.25, -0.5)] == ["1", "1", "1.2", "-0.5"]


def test_dots_count_started_units_of_the_scale() -> None:
    assert dot_count([("ready", 11), ("lost", 1), ("held", 0), ("start", -2)], scale=10) == 3


def test_a_thousand_replicas_are_one_rectangle_per_row() -> None:
    drawn = dots([("ready", 25), ("lost", 5)], 0, 0, per_row=10)
    assert drawn.count("<rect") == 4
    assert f'width="{10 * DOT}"' in drawn
    assert drawn.count("url(#p-ready)") == 3
    assert f'<rect x="{5 * DOT}" y="{2 * DOT}" width="{5 * DOT}" height="{DOT}" fill="url(#p-lost)"/>' in drawn


def test_label_of_a_picture_is_escaped() -> None:
    assert picture(10, 5.5, 'a"b', ["<g/>"]) == (
        '<svg class="pic" viewBox="0 0 10 5.5" role="img" aria-label="a&quot;b"><g/></svg>'
    )


def test_ribbon_has_the_same_thickness_at_both_ends() -> None:
    assert ribbon(0, 0, 10, 20, 4) == "M0 0C5 0 5 20 10 20v4C5 24 5 4 0 4z"


@given(runs=RUNS, per_row=st.integers(1, 40))
def test_there_are_as_many_dots_as_replicas(runs: list[tuple[str, int]], per_row: int) -> None:
    drawn = svg.dots(runs, 0, 0, per_row)
    widths = [int(width) for width in re.findall(r'width="(\d+)"', drawn)]
    assert sum(widths) == svg.DOT * sum(count for _, count in runs)
    assert all(width <= per_row * svg.DOT for width in widths)
