"""Forecasts run the same control plane on a virtual clock and find out when a plan is done."""

import asyncio

import pytest
from move_helpers import MoveScenario, divided, run_scenario

from trimtab.api.kinds.work import TargetCluster
from trimtab.cli.commands.apply_plan import carry_out
from trimtab.clock import LoopClock
from trimtab.dryrun.change import Change
from trimtab.dryrun.fleet_state import FleetState, fetch_fleet_state
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.plan_report import forecast_lines
from trimtab.dryrun.plan_result import Forecast, Plan
from trimtab.stories.forecast import ForecastOptions, Observation, forecast

FAST = ForecastOptions(pace="fast", horizon_seconds=3600.0)


def state_with(budget: dict | None = None) -> FleetState:
    async def act(scene: MoveScenario) -> FleetState:
        await scene.create_deployment("web", replicas=4)
        await scene.create_policy(divided(("m1", 1), ("m2", 1), ("m3", 1)))
        await scene.wait_until_settled("web", await settled_placement(scene))
        if budget is not None:
            await scene.create_budget(**budget)
        await asyncio.sleep(20)
        return await fetch_fleet_state(scene.client, LoopClock().now())

    return run_scenario(act)


async def settled_placement(scene: MoveScenario) -> dict[str, int]:
    await asyncio.sleep(20)
    return await scene.placement_of("web")


def forecast_of(state: FleetState, change: Change) -> tuple[Plan, Forecast]:
    plan = make_plan(state, change)
    return plan, forecast(state, plan, carry_out, FAST)


def test_drain_is_forecast_to_end_as_planned_without_an_interruption() -> None:
    plan, found = forecast_of(state_with(), Change(drain=("m1",)))
    assert found.finished
    assert found.differs == ()
    assert found.finish_seconds is not None
    assert 0 < found.finish_seconds < 60
    assert found.peak_surge == sum(move.replicas for move in plan.moves)
    assert found.fewest_ready["Deployment/default/web"] >= 4


def test_moves_that_are_done_with_other_shares_than_planned_are_finished() -> None:
    state = state_with()
    plan = make_plan(state, Change(drain=("m1",)))
    (row,) = plan.workloads
    shifted = row.but(after=(TargetCluster(name="m2", replicas=3), TargetCluster(name="m3", replicas=1)))
    found = forecast(state, plan.but(workloads=(shifted,)), carry_out, FAST)
    assert found.finished
    assert found.finish_seconds is not None
    assert found.finish_seconds < 60
    assert found.differs == ("Deployment/default/web",)
    assert "ends in m2:2 m3:2, not as planned." in " ".join(forecast_lines(found))


def test_replicas_that_have_not_left_are_not_finished() -> None:
    state = state_with({"rate": {"disruptions": 1, "period": "10h"}})
    plan = make_plan(state, Change(drain=("m1", "m2")))
    found = forecast(state, plan, carry_out, FAST._replace(horizon_seconds=7200.0))
    assert not found.finished


def test_rate_of_a_budget_delays_the_end() -> None:
    budget = {"rate": {"disruptions": 1, "period": "10m"}}
    _, free = forecast_of(state_with(), Change(drain=("m1", "m2")))
    _, slow = forecast_of(state_with(budget), Change(drain=("m1", "m2")))
    assert slow.finished
    assert slow.finish_seconds is not None
    assert free.finish_seconds is not None
    assert slow.finish_seconds >= 600 > free.finish_seconds


def test_lost_cluster_is_evacuated_after_the_delay_of_the_settings() -> None:
    plan, found = forecast_of(state_with(), Change(lose_clusters=("m1",)))
    assert found.finished
    assert found.finish_seconds is not None
    assert plan.evacuation_starts_after is not None
    assert found.finish_seconds >= plan.evacuation_starts_after
    assert found.fewest_ready["Deployment/default/web"] < 4


def test_forecast_that_does_not_end_within_the_horizon_says_so() -> None:
    state = state_with({"rate": {"disruptions": 1, "period": "10m"}})
    plan = make_plan(state, Change(drain=("m1", "m2")))
    found = forecast(state, plan, carry_out, FAST._replace(horizon_seconds=300.0))
    assert not found.finished
    assert found.finish_seconds is None
    assert found.seconds_simulated >= 300


def test_window_after_the_horizon_is_named_and_not_waited_for() -> None:
    state = state_with({"windows": [{"schedule": "0 3 * * *", "duration": "1h"}]})
    plan = make_plan(state, Change(drain=("m1",)))
    found = forecast(state, plan, carry_out, FAST._replace(horizon_seconds=7000.0))
    assert (found.finished, found.finish_seconds) == (False, None)
    assert found.waits_until == plan.workloads[0].starts_at
    assert found.waits_until is not None
    assert found.seconds_simulated < 1200


def test_window_within_the_horizon_is_waited_for_with_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    is_reached = Observation._is_reached
    monkeypatch.setattr(Observation, "_is_reached", lambda self, found: looks.append(1) or is_reached(self, found))
    state = state_with({"windows": [{"schedule": "0 3 * * *", "duration": "1h"}]})
    plan = make_plan(state, Change(drain=("m1",)))
    found = forecast(state, plan, carry_out, FAST._replace(horizon_seconds=4 * 3600.0))
    assert found.finished
    assert found.waits_until is None
    start = plan.workloads[0].starts_at
    assert start is not None
    assert plan.created is not None
    delay = (start - plan.created).total_seconds()
    assert found.finish_seconds == pytest.approx(delay, abs=60)
    assert len(looks) < delay / 10


@pytest.mark.parametrize("change", [Change(drain=("m1",)), Change(lose_clusters=("m2",))])
def test_forecasts_are_repeatable(change: Change) -> None:
    state = state_with()
    assert forecast_of(state, change) == forecast_of(state, change)
