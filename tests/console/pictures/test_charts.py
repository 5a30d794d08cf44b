"""Small charts stay inside their frames."""

from trimtab.console.pictures.charts import LoadChange, draw_load_change, draw_meter, draw_score


def test_small_charts_stay_inside_their_frames() -> None:
    assert draw_meter(5, 2).count('class="used"') == 2
    assert 'width="22"' in draw_score(1e9)
    drawn = draw_load_change(
        [LoadChange(name="a", region="r", now=-1, then=9), LoadChange(name="b", region="s", now=0, then=0, lost=True)]
    )
    assert "lost" in drawn
    assert "900 %" in drawn
