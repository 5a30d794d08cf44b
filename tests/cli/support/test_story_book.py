"""Verdicts of stories survive a restart of the server."""

import asyncio
from pathlib import Path

from trimtab.cli.support.story_book import StoryDirectory

STORY = """
name: Nothing happens
fleet: {members: [{name: m1}]}
timeline:
- at: 1s
  expect: {nothing: true}
"""


def test_verdict_is_kept_for_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "quiet.yaml").write_text(STORY)
    file = tmp_path / "verdicts.json"

    async def play() -> str:
        book = StoryDirectory(tmp_path, file)
        book.stories()
        book.play("quiet", "anna")
        await asyncio.gather(*book._tasks)
        (found,) = book.stories()
        return found.verdict

    verdict = asyncio.run(play())
    assert verdict
    (again,) = StoryDirectory(tmp_path, file).stories()
    assert (again.verdict, again.by, again.title) == (verdict, "anna", "Nothing happens")
    assert again.state in ("good", "none")
    file.write_text("damaged")
    (unplayed,) = StoryDirectory(tmp_path, file).stories()
    assert unplayed.state == ""
