"""`trimtab apply-plan`: which files it refuses; `test_move_commands` carries plans out."""

from pathlib import Path

import msgspec
import pytest
from move_helpers import MoveScenario, run_scenario

from trimtab.cli.commands.apply_plan import apply_object, read_plan
from trimtab.clock import EPOCH
from trimtab.dryrun.change import Change
from trimtab.dryrun.fleet_state import FleetState
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.plan_result import Plan, digest_of
from trimtab.errors import InputError


def write(path: Path, plan: Plan) -> Path:
    path.write_bytes(msgspec.json.encode(plan.but(hash=digest_of(plan))))
    return path


def test_a_written_plan_is_read_again(tmp_path: Path) -> None:
    plan = Plan(change=Change(drain=("a",)))
    assert read_plan(write(tmp_path / "p", plan)).change == plan.change


def test_files_that_are_no_plans_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("kind: Deployment")
    with pytest.raises(InputError, match="is not a plan"):
        read_plan(file)
    with pytest.raises(InputError, match="has the format 'trimtab-plan/9'"):
        read_plan(write(file, Plan(format="trimtab-plan/9")))
    with pytest.raises(InputError, match="unknown profile 'other'"):
        read_plan(write(file, Plan(profile="other")))
    file.write_bytes(b'{"change":' + b'{"a":' * 10**5)
    with pytest.raises(InputError, match="is not a plan"):
        read_plan(file)


def test_rebalance_of_another_shape_is_refused() -> None:
    state = FleetState.of((), (), EPOCH)
    with pytest.raises(InputError, match="the rebalance is invalid"):
        make_plan(state, Change(rebalance={"workloads": 5}))


def test_a_plan_about_a_failure_cannot_be_carried_out(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be carried out"):
        read_plan(write(tmp_path / "p", Plan(change=Change(lose_clusters=("a",)))))


def test_an_edited_plan_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "p", Plan(change=Change(drain=("a",))))
    file.write_bytes(file.read_bytes().replace(b'["a"]', b'["b"]'))
    with pytest.raises(InputError, match="was edited"):
        read_plan(file)


def test_object_that_is_as_in_the_plan_is_unchanged() -> None:
    async def act(scene: MoveScenario) -> None:
        raw = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "default"},
            "data": {"a": "1"},
        }
        assert await apply_object(scene.client, raw) == "configmap/c created"
        assert await apply_object(scene.client, raw) == "configmap/c unchanged"
        assert await apply_object(scene.client, {**raw, "data": {"a": "2"}}) == "configmap/c configured"

    run_scenario(act)
