"""`trimtab plan`: its options and output; `test_move_commands` runs it against a fleet."""

from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from move_helpers import MoveScenario, run_scenario

from cli.scenarios import place_in_m1_and_m2
from trimtab.cli.commands.plan import RebalanceSelection, check_kinds, command, print_plan, rebalance_spec, write_plan
from trimtab.client.client import Resource
from trimtab.clock import LoopClock
from trimtab.dryrun.fleet_state import fetch_fleet_state
from trimtab.dryrun.plan_result import MOVE, UNCHANGED, Plan, PlannedWorkload, digest_of
from trimtab.dryrun.snapshot import snapshot_of
from trimtab.errors import InputError


def test_help_explains_the_exit_codes() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "Exit codes: 0 nothing changes, 2 something changes, 3" in result.output


def test_a_plan_of_nothing_is_refused() -> None:
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 2
    assert "--lose-cluster" in result.output


def test_files_without_objects_are_refused(tmp_path: Path) -> None:
    (empty := tmp_path / "empty.yaml").write_text("# nothing\n")
    result = CliRunner().invoke(command, ["-f", str(empty)])
    assert (result.exit_code, str(result.exception)) == (1, f"there are no objects in {empty}")
    result = CliRunner().invoke(command, ["-f", "-"], input="")
    assert str(result.exception) == "there are no objects in the standard input"


def test_a_kind_that_the_server_does_not_serve_is_refused_unless_its_definition_is_planned_too() -> None:
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "one"}}
    pods = Resource(group="", version="v1", kind="Pod", plural="pods")
    with pytest.raises(InputError, match="Thing one: the server serves no kind Thing"):
        check_kinds([thing], [pods])
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Thing"}},
    }
    crds = Resource(group="apiextensions.k8s.io", version="v1", kind="CustomResourceDefinition", plural="crds")
    check_kinds([thing, definition], [pods, crds])


def test_plan_is_printed_as_table_json_or_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan(unchanged=3)
    print_plan(plan, "table")
    assert "3 other workloads do not change." in capsys.readouterr().out
    print_plan(plan, "json")
    assert msgspec.json.decode(capsys.readouterr().out, type=Plan) == plan
    print_plan(plan, "yaml")
    assert yaml.safe_load(capsys.readouterr().out)["unchanged"] == 3
    moved, same = (
        PlannedWorkload(workload="Deployment/a/x", action=MOVE),
        PlannedWorkload(workload="b", action=UNCHANGED),
    )
    print_plan(plan.but(workloads=(moved, same)), "name")
    assert capsys.readouterr().out == "Deployment/a/x\n"


def test_plan_file_is_private_and_has_a_hash(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    plan = Plan()
    write_plan(plan.but(hash=digest_of(plan)), file)
    assert file.stat().st_mode & 0o777 == 0o600
    read = msgspec.json.decode(file.read_bytes(), type=Plan)
    assert read.hash == digest_of(read)


def test_plan_file_that_cannot_be_written_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^cannot write .*/missing/plan\.json: No such file or directory$"):
        write_plan(Plan(), tmp_path / "missing" / "plan.json")


def test_wrong_labels_are_reported_with_the_option_that_has_them() -> None:
    served = [Resource("apps", "v1", "deployments", "Deployment")]
    with pytest.raises(InputError, match=r"^--rebalance '\(\(\('"):
        rebalance_spec(RebalanceSelection(("(((",), "deployment", "default"), served)


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        state = await fetch_fleet_state(scene.client, LoopClock().now())
        (tmp_path / "fleet.json").write_bytes(msgspec.json.encode(snapshot_of(state)))

    run_scenario(act)
    return tmp_path / "fleet.json"


def test_forecast_of_a_snapshot_says_when_the_last_move_is_done(snapshot: Path) -> None:
    result = CliRunner().invoke(
        command, ["--from", str(snapshot), "--drain", "m1", "--forecast", "--pace", "fast", "-o", "json"]
    )
    plan = msgspec.json.decode(result.stdout, type=Plan)
    assert plan.forecast is not None
    assert plan.forecast.finished
    assert plan.forecast.differs == ()


def test_settings_of_the_control_plane_are_taken_into_account(snapshot: Path) -> None:
    options = ["--from", str(snapshot), "--lose-cluster", "m1", "--set", "evacuate-after-seconds=10"]
    assert "Evictions begin 40 s after the failure." in CliRunner().invoke(command, options).output
    wrong = CliRunner().invoke(command, [*options, "--set", "nope=1"])
    assert wrong.exit_code == 2
