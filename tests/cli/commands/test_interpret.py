from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from trimtab.cli.commands.interpret import command
from trimtab.errors import InputError

CUSTOMIZATION = """
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: foo}
spec:
  target: {apiVersion: ex.io/v1, kind: Foo}
  customizations:
    healthInterpretation:
      luaScript: |
        function InterpretHealth(o) print('looked') return o.status.ok end
    replicaRevision:
      luaScript: |
        function ReviseReplica(o, n) o.spec.size = n return o end
    statusAggregation:
      luaScript: |
        function AggregateStatus(o, items) o.status = {clusters = #items} return o end
"""
OBSERVED = "{apiVersion: ex.io/v1, kind: Foo, metadata: {name: x}, spec: {size: 1}, status: {ok: true}}"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "ric.yaml").write_text(CUSTOMIZATION)
    (tmp_path / "obj.yaml").write_text(OBSERVED)
    (tmp_path / "statuses.yaml").write_text("[{clusterName: a}, {clusterName: b}]")
    return tmp_path


def run(files: Path, *arguments: str) -> Result:
    words = [str(files / word) if word.endswith(".yaml") else word for word in arguments]
    return CliRunner().invoke(command, words, standalone_mode=False)


def refusal(result: Result) -> str:
    assert isinstance(result.exception, InputError)
    return str(result.exception)


def test_operations_with_complete_input_run(files: Path) -> None:
    result = run(files, "-f", "ric.yaml", "--observed", "obj.yaml")
    assert "InterpretHealth: Healthy\n" in result.stdout
    assert "ReviseReplica" not in result.stdout


def test_output_of_a_script_is_shown(files: Path) -> None:
    result = run(files, "-f", "ric.yaml", "--observed", "obj.yaml", "--operation", "InterpretHealth")
    assert "InterpretHealth printed: looked" in result.stderr


def test_single_operation_can_be_selected(files: Path) -> None:
    result = run(files, "-f", "ric.yaml", "--desired", "obj.yaml", "--operation", "revisereplica", "--replicas", "7")
    assert "size: 7" in result.stdout
    assert "InterpretHealth" not in result.stdout


def test_statuses_of_clusters_can_be_aggregated(files: Path) -> None:
    result = run(files, "-f", "ric.yaml", "--desired", "obj.yaml", "--statuses", "statuses.yaml")
    assert "clusters: 2" in result.stdout


def test_builtin_rules_run_without_a_script(files: Path) -> None:
    (files / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}, status: {phase: Succeeded}}")
    result = run(files, "--observed", "pod.yaml")
    assert "InterpretHealth: Healthy\n" in result.stdout


def test_failing_script_fails_the_command_with_a_reason(files: Path) -> None:
    (files / "ric.yaml").write_text(CUSTOMIZATION.replace("return o.status.ok", "return 1"))
    result = run(files, "-f", "ric.yaml", "--observed", "obj.yaml")
    assert result.exit_code == 1
    assert "the health must be true or false, not a number" in result.stderr


def test_scripts_without_an_object_are_checked_for_syntax(files: Path) -> None:
    (files / "ric.yaml").write_text(CUSTOMIZATION.replace("return o.status.ok", "retrun o.status.ok"))
    result = run(files, "-f", "ric.yaml")
    assert "foo InterpretHealth: BadScript" in result.stderr
    assert "foo ReviseReplica: the syntax is valid" in result.stdout


def test_unknown_operation_is_refused_with_the_known_ones(files: Path) -> None:
    assert "operations: InterpretReplica" in refusal(run(files, "--observed", "obj.yaml", "--operation", "Guess"))


def test_operation_without_its_input_is_refused(files: Path) -> None:
    result = run(files, "-f", "ric.yaml", "--desired", "obj.yaml", "--operation", "ReviseReplica")
    assert refusal(result) == "ReviseReplica requires --replicas"


def test_file_of_another_kind_is_refused(files: Path) -> None:
    assert "contains a Foo; -f accepts only" in refusal(run(files, "-f", "obj.yaml", "--observed", "obj.yaml"))


def test_object_of_another_kind_than_the_target_is_refused(files: Path) -> None:
    (files / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}}")
    assert "the scripts are for ex.io/v1 Foo" in refusal(run(files, "-f", "ric.yaml", "--observed", "pod.yaml"))


def test_file_that_is_not_yaml_is_refused(files: Path) -> None:
    (files / "bad.yaml").write_text("{")
    assert "is not YAML" in refusal(run(files, "--observed", "bad.yaml"))


def test_no_input_is_refused(files: Path) -> None:
    assert refusal(run(files)).startswith("nothing to do")


def test_shipped_rules_are_shown_as_a_customization_that_can_be_used(files: Path) -> None:
    shown = run(files, "--show", "argoproj.io/v1alpha1/rollout").stdout
    (files / "shown.yaml").write_text(shown)
    rollout = "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: x}, spec: {replicas: 3}}"
    (files / "rollout.yaml").write_text(rollout)
    assert yaml.safe_load(shown)["kind"] == "ResourceInterpreterCustomization"
    assert "luaScript: |" in shown
    result = run(files, "-f", "shown.yaml", "--desired", "rollout.yaml", "--operation", "InterpretReplica")
    assert "replicas: 3" in result.stdout


def test_kind_without_shipped_rules_is_refused_with_similar_names(files: Path) -> None:
    assert "argoproj.io/v1alpha1/Rollout" in refusal(run(files, "--show", "argoproj.io/v1alpha1/Rollouts"))
    assert "kubeflow.org/v2beta1/MPIJob" in refusal(run(files, "--show", "MPIJob"))  # there are two versions
