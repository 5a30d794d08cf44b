"""Small charts stay inside their frames."""

from trimtab.console.pictures.charts import LoadChange, draw_load_change, draw_meter, draw_score, draw_storm


def test_small_charts_stay_inside_their_frames() -> None:
    assert draw_meter(5, 2).count('class="used"') == 2
    assert 'width="22"' in draw_score(1e9)
    drawn = draw_load_change(
        [LoadChange(name="a", region="r", now=-1, then=9), LoadChange(name="b", region="s", now=0, then=0, lost=True)]
    )
    assert "lost" in drawn
    assert "900 %" in drawn


def test_marks_of_the_storm_brake_are_in_the_picture_and_in_its_label() -> None:
    drawn = draw_storm(3, 8, [(4, "slows from 4 on"), (6, "stops from 6 on")], 800)
    assert 'aria-label="3 of 8 clusters are not ready; the brake slows from 4 on; the brake stops from 6 on"' in drawn
    assert 'x1="400"' in drawn
    assert 'class="over" y="22" width="300"' in drawn
    assert 'width="800"' in draw_storm(9, 8, [], 800)
