"""Every story in `stories/` comes true, on the virtual clock."""

from pathlib import Path

import pytest

from trimtab.cli.shared_stage import Failed, clock_text, play_in_memory
from trimtab.clock import run_virtually
from trimtab.simulate.story import read_story

STORIES = sorted((Path(__file__).parents[2] / "stories").glob("*.yaml"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_it_comes_true(path: Path) -> None:
    told: list[str] = []
    try:
        playing = play_in_memory(read_story(path), lambda at, text: told.append(f"{clock_text(at)}  {text}"))
        run_virtually(playing, patience=300)
    except Failed as failed:
        lines = [*told, f"FAILED at {clock_text(failed.at)}: {failed.expectation}", *failed.facts]
        pytest.fail("\n".join(lines), pytrace=False)
