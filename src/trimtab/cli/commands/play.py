"""`trimtab play`: tells what a fleet lives through, and whether it went as the story says it must."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import click

from trimtab.cli.support.progress_bar import Bar
from trimtab.clock import run_virtually
from trimtab.errors import InputFault, Stuck
from trimtab.stories.runner import Failed, Stage, Tell, clock_text, play_in_memory
from trimtab.stories.story import Story, read_story
from trimtab.telemetry import speak

PATIENCE_SECONDS = 600


class Verdict(NamedTuple):
    """How one story went."""

    file: Path
    name: str
    took: float
    failure: Failed | None


@click.command()
@click.argument("stories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--live", is_flag=True, help="On the wall clock, served as by `trimtab up`: watch it with kubectl.")
@click.option("--seed", type=int, help="Another seed than the story's.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Also write the outcome as JUnit XML.")
@click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=PATIENCE_SECONDS,
    show_default=True,
    help="Give a story up after so many seconds on the wall clock.",
)
@click.option("--quiet", "-q", is_flag=True, help="Only the verdicts.")
def command(
    stories: tuple[Path, ...], live: bool, seed: int | None, junit: Path | None, patience: float, quiet: bool
) -> None:
    """Play stories (files, or folders of them); exit with 1 if one of them does not go as it must."""
    speak()
    verdicts = []
    for file in files(stories):
        story = read_story(file)
        if seed is not None:
            story = story.but(seed=seed)
        verdicts.append(perform(file, story, live=live, quiet=quiet, patience=patience))
    if junit is not None:
        junit.write_text(as_junit(verdicts), encoding="utf-8")
    failed = sum(verdict.failure is not None for verdict in verdicts)
    if len(verdicts) > 1:
        click.echo(f"{len(verdicts) - failed} passed, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)


def files(given: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in given:
        found += sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    if not found:
        raise InputFault("no stories were found")
    return found


def perform(
    file: Path, story: Story, *, live: bool = False, quiet: bool = False, patience: float = PATIENCE_SECONDS
) -> Verdict:
    """Play one story, telling it as it goes."""
    bar = Bar(not quiet)

    def tell(at: float, text: str) -> None:
        bar.clear()
        click.echo(f"{clock_text(at)}  {text}")

    if not quiet:
        click.echo(f"{story.name}\n")
    began, failure = time.perf_counter(), None
    try:
        if live:
            lived = _live(story, tell, bar)
        else:
            told = play_in_memory(story, (lambda *_: None) if quiet else tell, bar.show)
            lived = run_virtually(told, patience=patience)
    except Failed as failed:
        failure, lived = failed, failed.at
    except Stuck as stuck:
        failure, lived = Failed("the story comes to its end", stuck.at, [str(stuck)]), stuck.at
    bar.clear()
    took = time.perf_counter() - began
    if failure is not None:
        click.echo(f"\nFAILED at {clock_text(failure.at)}: {failure.expectation}")
        for fact in failure.facts:
            click.echo(f"  {fact}")
        click.echo("")
    word = "FAILED" if failure is not None else "ok"
    click.echo(f"{word}  {file.stem}  ({clock_text(lived)} in {took:.1f} s)")
    return Verdict(file, story.name, took, failure)


def _live(story: Story, tell: Tell, bar: Bar) -> float:
    import asyncio  # noqa: PLC0415 - only the wall clock needs it
    import tempfile  # noqa: PLC0415

    from trimtab.cli.commands.up import House  # noqa: PLC0415
    from trimtab.clock import WallClock  # noqa: PLC0415

    async def life(folder: str) -> float:
        house = House(Path(folder), "127.0.0.1", 0, story.plan, story.profile, story.settings)
        try:
            await house.open()
            click.echo(house.address())
            await house.start()
            return await Stage(story, house.fleet, WallClock(), tell, bar.show).play()
        finally:
            await house.stop()

    with tempfile.TemporaryDirectory(prefix="trimtab-play-") as folder:
        return asyncio.run(life(folder))


def as_junit(verdicts: list[Verdict]) -> str:
    failed = sum(verdict.failure is not None for verdict in verdicts)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(f'<testsuite name="stories" tests="{len(verdicts)}" failures="{failed}">')
    for verdict in verdicts:
        lines.append(f'  <testcase name={quoteattr(verdict.file.stem)} classname="stories" time="{verdict.took:.3f}">')
        if verdict.failure is not None:
            text = escape("\n".join(verdict.failure.facts))
            lines.append(f"    <failure message={quoteattr(verdict.failure.expectation)}>{text}</failure>")
        lines.append("  </testcase>")
    return "\n".join([*lines, "</testsuite>", ""])
