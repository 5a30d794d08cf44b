"""`trimtab play`: run stories and report whether their expectations are met."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import click

from trimtab.cli.support.progress_bar import ProgressBar
from trimtab.clock import run_virtually
from trimtab.dryrun.fleet_state import FleetState
from trimtab.dryrun.snapshot import read_snapshot
from trimtab.errors import InputError, VirtualRunStuck
from trimtab.runtime.declarations import load_declarations
from trimtab.stories.report import StoryFailed, WriteLine, clock_text
from trimtab.stories.runner import StoryRunner, run_in_memory
from trimtab.stories.story import Story, read_story
from trimtab.telemetry import configure_logging

TIMEOUT_SECONDS = 600


class StoryResult(NamedTuple):
    """The result of one story."""

    file: Path
    name: str
    took: float
    failure: StoryFailed | None


@click.command()
@click.argument("stories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--live", is_flag=True, help="Run in real time with a served API, for kubectl.")
@click.option(
    "--from",
    "snapshot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Begin with the clusters and workloads of a snapshot that `trimtab snapshot` has written.",
)
@click.option("--seed", type=int, help="Seed to use instead of the seed of the story.")
@click.option(
    "--junit", type=click.Path(dir_okay=False, path_type=Path), help="Also write the results to this file as JUnit XML."
)
@click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=TIMEOUT_SECONDS,
    show_default=True,
    help="Seconds of real time after which a story is stopped and fails.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print only the results.")
def command(
    stories: tuple[Path, ...],
    live: bool,
    snapshot: Path | None,
    seed: int | None,
    junit: Path | None,
    patience: float,
    quiet: bool,
) -> None:
    """Run stories (files or directories). The exit code is 1 when a story fails."""
    configure_logging()
    if live and snapshot is not None:
        raise click.UsageError("--live cannot be combined with --from; use trimtab up --from")
    saved = saved_state(snapshot) if snapshot is not None else None
    verdicts = []
    for file in story_files(stories):
        story = read_story(file)
        if seed is not None:
            story = story.but(seed=seed)
        verdicts.append(run_story(file, story, live=live, quiet=quiet, timeout=patience, saved=saved))
    if junit is not None:
        junit.write_text(junit_xml(verdicts), encoding="utf-8")
    failed = sum(verdict.failure is not None for verdict in verdicts)
    if len(verdicts) > 1:
        click.echo(f"{len(verdicts) - failed} passed, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)


def story_files(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        found += sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    if not found:
        raise InputError("no stories found: give YAML files, or directories that contain some")
    return found


def saved_state(path: Path) -> FleetState:
    load_declarations()
    return read_snapshot(path)


def run_story(
    file: Path,
    story: Story,
    *,
    live: bool = False,
    quiet: bool = False,
    timeout: float = TIMEOUT_SECONDS,
    saved: FleetState | None = None,
) -> StoryResult:
    """Run one story and print its events; with a `saved` state on its clusters and workloads."""
    bar = ProgressBar(not quiet)

    def tell(at: float, text: str) -> None:
        bar.clear()
        click.echo(f"{clock_text(at)}  {text}")

    if not quiet:
        click.echo(f"{story.name}\n")
    began, failure = time.perf_counter(), None
    try:
        if live:
            elapsed = _run_live(story, tell, bar)
        else:
            run = run_in_memory(story, (lambda *_: None) if quiet else tell, bar.show, saved=saved)
            elapsed = run_virtually(run, timeout=timeout)
    except StoryFailed as failed:
        failure, elapsed = failed, failed.at
    except VirtualRunStuck as stuck:
        failure, elapsed = StoryFailed("the story did not end", stuck.at, [str(stuck)]), stuck.at
    bar.clear()
    took = time.perf_counter() - began
    if failure is not None:
        click.echo(f"\nFAILED at {clock_text(failure.at)}: {failure.message}")
        for fact in failure.facts:
            click.echo(f"  {fact}")
        click.echo("")
    word = "FAILED" if failure is not None else "ok"
    click.echo(f"{word}  {file.stem}  ({clock_text(elapsed)} in {took:.1f} s)")
    return StoryResult(file, story.name, took, failure)


def _run_live(story: Story, write_line: WriteLine, bar: ProgressBar) -> float:
    import asyncio  # noqa: PLC0415 - only --live needs it
    import tempfile  # noqa: PLC0415

    from trimtab.cli.commands.up import address_text  # noqa: PLC0415
    from trimtab.clock import WallClock  # noqa: PLC0415
    from trimtab.local_fleet import LocalFleet  # noqa: PLC0415

    async def run(folder: str) -> float:
        local = LocalFleet(Path(folder), "127.0.0.1", 0, story.plan, story.profile, story.settings)
        try:
            await local.open()
            click.echo(address_text(local.daemon.url, local.daemon.kubeconfig))
            await local.start()
            return await StoryRunner(story, local.fleet, WallClock(), write_line, bar.show).run()
        finally:
            await local.stop()

    with tempfile.TemporaryDirectory(prefix="trimtab-play-") as folder:
        return asyncio.run(run(folder))


def junit_xml(results: list[StoryResult]) -> str:
    failed = sum(verdict.failure is not None for verdict in results)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(f'<testsuite name="stories" tests="{len(results)}" failures="{failed}">')
    for verdict in results:
        lines.append(f'  <testcase name={quoteattr(verdict.file.stem)} classname="stories" time="{verdict.took:.3f}">')
        if verdict.failure is not None:
            text = escape("\n".join(verdict.failure.facts))
            lines.append(f"    <failure message={quoteattr(verdict.failure.message)}>{text}</failure>")
        lines.append("  </testcase>")
    return "\n".join([*lines, "</testsuite>", ""])
