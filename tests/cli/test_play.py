from pathlib import Path

import pytest
from click.testing import CliRunner

from trimtab.cli.play import command

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
