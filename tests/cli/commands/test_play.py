from pathlib import Path

import pytest
from click.testing import CliRunner

from trimtab.cli.commands.play import command

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


def test_a_story_that_comes_true_is_told_and_ends_well(stories: Path) -> None:
    outcome = CliRunner().invoke(command, [str(stories / "good.yaml")])
    assert outcome.exit_code == 0, outcome.output
    assert "00:00:00  apply ConfigMap/a" in outcome.output
    assert "✓ ConfigMap/a.data.k == v" in outcome.output


def test_one_that_does_not_says_what_was_expected_and_how_it_stood(stories: Path) -> None:
    outcome = CliRunner().invoke(command, [str(stories / "bad.yaml")])
    assert outcome.exit_code == 1
    assert "FAILED at 00:00:03: ConfigMap/a.data.k == w" in outcome.output
    assert "ConfigMap/a.data.k is v" in outcome.output
    assert "cluster one is ready" in outcome.output


def test_the_outcome_can_be_read_by_machines(stories: Path) -> None:
    report = stories / "report.xml"
    outcome = CliRunner().invoke(command, ["-q", str(stories), "--junit", str(report)])
    assert outcome.exit_code == 1
    assert "1 passed, 1 failed" in outcome.output
    assert 'tests="2" failures="1"' in report.read_text()


def test_the_same_seed_tells_the_same_story(stories: Path) -> None:
    told = [CliRunner().invoke(command, [str(stories / "good.yaml")]).output.rsplit("\n", 2)[0] for _ in range(2)]
    assert told[0] == told[1]


HOPELESS = """
name: nobody will ever know
fleet: {members: [{name: one, nodes: 1}]}
timeline:
- apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}
- wait: 100000h
expect:
- never: missing(ConfigMap/a)
"""


def test_a_story_that_does_not_end_is_given_up_and_the_next_one_is_played(stories: Path) -> None:
    (stories / "a-long-one.yaml").write_text(HOPELESS)
    (stories / "bad.yaml").unlink()
    outcome = CliRunner().invoke(command, ["-q", "--patience", "3", str(stories)])
    assert outcome.exit_code == 1
    assert "the story comes to its end" in outcome.output
    assert "no end after 3 seconds on the wall clock" in outcome.output
    assert "ok  good" in outcome.output


@pytest.mark.parametrize("until", ["2s", "later"])
def test_what_must_become_true_before_a_moment_fails_when_that_has_passed(tmp_path: Path, until: str) -> None:
    late = "\n- {name: later, after: 2s}\nexpect:\n- that: ConfigMap/a.data.k == w\n  from: 0s\n  until: " + until
    (tmp_path / "late.yaml").write_text(STORY.partition("\nexpect")[0] + late)
    outcome = CliRunner().invoke(command, ["-q", "--patience", "30", str(tmp_path)])
    assert "FAILED at 00:00:02: ConfigMap/a.data.k == w" in outcome.output


def test_looks_without_time_between_them_are_refused(tmp_path: Path) -> None:
    (tmp_path / "busy.yaml").write_text(STORY % "v" + "every: 0\n")
    outcome = CliRunner().invoke(command, ["-q", str(tmp_path)])
    assert "`every` is 0" in str(outcome.exception)


def test_what_nobody_ever_looked_at_did_not_come_true(tmp_path: Path) -> None:
    (tmp_path / "blind.yaml").write_text(STORY % "v" + "- never: exists(ConfigMap/a)\n  from: 40s\n")
    outcome = CliRunner().invoke(command, ["-q", str(tmp_path)])
    assert outcome.exit_code == 1
    assert "somebody looks whether never exists(ConfigMap/a)" in outcome.output
    assert "counts from 00:00:40 on, and the story ended before" in outcome.output
