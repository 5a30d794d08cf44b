"""`trimtab play`: the output, the exit code and the limits of stories."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from move_helpers import MoveScenario, run_scenario

from cli.scenarios import place_in_m1_and_m2
from fake_time import count_loop_turns_as_seconds
from trimtab.cli.commands.play import command
from trimtab.clock import LoopClock
from trimtab.dryrun.fleet_state import fetch_fleet_state
from trimtab.dryrun.snapshot import snapshot_of

STORY = """
name: one cluster
fleet: {members: [{name: one, nodes: 1}]}
timeline:
- apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}
expect:
- that: ConfigMap/a.data.k == %s
  within: 3s
"""


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    (tmp_path / "good.yaml").write_text(STORY % "v")
    (tmp_path / "bad.yaml").write_text(STORY % "w")
    return tmp_path


def test_story_whose_expectations_are_met_passes(stories: Path) -> None:
    outcome = CliRunner().invoke(command, [str(stories / "good.yaml")])
    assert outcome.exit_code == 0, outcome.output
    assert "00:00:00  apply ConfigMap/a" in outcome.output
    assert "✓ ConfigMap/a.data.k == v" in outcome.output


def test_failed_story_shows_the_expectation_and_the_state(stories: Path) -> None:
    outcome = CliRunner().invoke(command, [str(stories / "bad.yaml")])
    assert outcome.exit_code == 1
    assert "FAILED at 00:00:03: ConfigMap/a.data.k == w" in outcome.output
    assert "ConfigMap/a.data.k is v" in outcome.output
    assert "cluster one is ready" in outcome.output


def test_results_are_written_as_junit_xml(stories: Path) -> None:
    report = stories / "report.xml"
    outcome = CliRunner().invoke(command, ["-q", str(stories), "--junit", str(report)])
    assert outcome.exit_code == 1
    assert "1 passed, 1 failed" in outcome.output
    assert 'tests="2" failures="1"' in report.read_text()


def test_same_seed_gives_the_same_output(stories: Path) -> None:
    outputs = [CliRunner().invoke(command, [str(stories / "good.yaml")]).output.rsplit("\n", 2)[0] for _ in range(2)]
    assert outputs[0] == outputs[1]


ENDLESS = """
name: a story without an end
fleet: {members: [{name: one, nodes: 1}]}
timeline:
- apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}
- wait: 100000h
expect:
- never: missing(ConfigMap/a)
"""


def test_endless_story_is_stopped_and_the_next_one_runs(stories: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count_loop_turns_as_seconds(monkeypatch, 0.01)
    (stories / "a-long-one.yaml").write_text(ENDLESS)
    (stories / "bad.yaml").unlink()
    outcome = CliRunner().invoke(command, ["-q", "--patience", "60", str(stories)])
    assert outcome.exit_code == 1
    assert "the story did not end" in outcome.output
    assert "stopped after 60 seconds of real time; virtual time advanced" in outcome.output
    assert "ok  good" in outcome.output


@pytest.mark.parametrize("until", ["2s", "later"])
def test_expectation_with_until_fails_when_that_time_has_passed(tmp_path: Path, until: str) -> None:
    late = "\n- {name: later, after: 2s}\nexpect:\n- that: ConfigMap/a.data.k == w\n  from: 0s\n  until: " + until
    (tmp_path / "late.yaml").write_text(STORY.partition("\nexpect")[0] + late)
    outcome = CliRunner().invoke(command, ["-q", str(tmp_path)])
    assert "FAILED at 00:00:02: ConfigMap/a.data.k == w" in outcome.output


def test_interval_of_zero_is_refused(tmp_path: Path) -> None:
    (tmp_path / "busy.yaml").write_text(STORY % "v" + "every: 0\n")
    outcome = CliRunner().invoke(command, ["-q", str(tmp_path)])
    assert "every: is 0; it must be greater than 0" in str(outcome.exception)


def test_expectation_that_was_never_checked_fails_the_story(tmp_path: Path) -> None:
    (tmp_path / "blind.yaml").write_text(STORY % "v" + "- never: exists(ConfigMap/a)\n  from: 40s\n")
    outcome = CliRunner().invoke(command, ["-q", str(tmp_path)])
    assert outcome.exit_code == 1
    assert "never checked: never exists(ConfigMap/a)" in outcome.output
    assert "it applies from 00:00:40, and the story ended before" in outcome.output


def test_step_that_is_refused_fails_the_story_with_the_error(tmp_path: Path) -> None:
    refused = STORY % "v" + "- never: missing(Cluster/one)\n"
    refused = refused.replace("metadata: {name: a}", "metadata: {name: Not_Valid}")
    (tmp_path / "refused.yaml").write_text(refused)
    outcome = CliRunner().invoke(command, ["-q", str(tmp_path)])
    assert outcome.exit_code == 1
    assert 'FAILED at 00:00:00: step 1 could not be applied: ConfigMap "Not_Valid" is invalid' in outcome.output


def test_folder_without_stories_is_refused(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(command, [str(tmp_path)])
    assert "no stories found" in str(outcome.exception)


SAVED = """
name: the saved workload
timeline:
- {at: 1s, taint: {cluster: m1, key: broken, effect: NoExecute}}
expect:
- {that: placement(ResourceBinding/web-deployment) == "m2=4", within: 5m}
- {never: count(Cluster/*) != 3}
"""


def test_story_begins_with_the_clusters_and_workloads_of_a_snapshot(tmp_path: Path) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        state = await fetch_fleet_state(scene.client, LoopClock().now())
        (tmp_path / "fleet.json").write_bytes(msgspec.json.encode(snapshot_of(state)))

    run_scenario(act)
    (tmp_path / "story.yaml").write_text(SAVED)
    options = ["--from", str(tmp_path / "fleet.json"), str(tmp_path / "story.yaml")]
    outcome = CliRunner().invoke(command, options)
    assert outcome.exit_code == 0, outcome.output
    assert "--live cannot be combined" in CliRunner().invoke(command, ["--live", *options]).output
