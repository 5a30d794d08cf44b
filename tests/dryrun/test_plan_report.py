"""Plans as text."""

from datetime import UTC, datetime

from trimtab.api.kinds.work import TargetCluster
from trimtab.dryrun.plan_report import forecast_lines, format_seconds, report_lines
from trimtab.dryrun.plan_result import (
    EVICTION_STOPPED,
    BudgetCost,
    ClusterLoad,
    Forecast,
    Plan,
    PlannedMove,
    PlannedRefusal,
    PlannedWorkload,
    Verdict,
)

A, B = TargetCluster(name="a", replicas=4), TargetCluster(name="b", replicas=4)
AT = datetime(2030, 1, 1, 3, tzinfo=UTC)
REFUSAL = PlannedRefusal(code="WindowClosed", message="budget night: no window is open", until=AT)
PLAN = Plan(
    verdict=Verdict(outcome="Changes", message="One workload is moved.", spread_before=1.0, spread_after=2.0),
    objects=("PropagationPolicy/default/web configured",),
    workloads=(
        PlannedWorkload(
            workload="Deployment/default/web",
            action="Move",
            cause="Drain",
            before=(A,),
            after=(B,),
            start="Later",
            starts_at=AT,
            refusal=REFUSAL,
            is_pending=True,
        ),
    ),
    unchanged=1,
    moves=(PlannedMove(workload="Deployment/default/web", cause="Drain", source="a", to=(B,), replicas=4),),
    budgets=(BudgetCost(budget="default/night", moves=1, allowed_now=0, next_at=AT),),
    load=(ClusterLoad(cluster="a", replicas_before=4, cpu_before=0.5, cpu_after=0.1), ClusterLoad(cluster="c")),
    warnings=("budget default/night: too small",),
    evacuation_starts_after=330.0,
    forecast=Forecast(finished=True, finish_seconds=3725.0, peak_surge=4, differs=("Deployment/default/web",)),
)


def test_forecast_says_what_it_waits_for_and_that_nothing_runs_twice() -> None:
    until = datetime(2028, 2, 29, 3, tzinfo=UTC)
    assert list(forecast_lines(Forecast(waits_until=until, differs=("Deployment/default/web",)))) == [
        "Forecast: not finished; the next move may begin on 2028-02-29 03:00:00Z, which is after the horizon (--horizon).",
        "No replica runs twice.",
        "Forecast: Deployment/default/web is still in -.",
    ]
    assert next(iter(forecast_lines(Forecast(seconds_simulated=900.0)))) == "Forecast: not finished within 15 min."


def test_report_does_not_promise_evictions_that_the_storm_brake_stops() -> None:
    stopped = PlannedWorkload(
        workload="Deployment/default/web",
        action="Refused",
        refusal=PlannedRefusal(code=EVICTION_STOPPED, message="stays in a", is_violation=True),
    )
    plan = Plan(workloads=(stopped,), evacuation_starts_after=330.0)
    assert "No workload is evicted while so many clusters have failed (DisruptionPolicy, storm)." in report_lines(plan)
    assert "Evictions begin 330 s after the failure." in report_lines(PLAN)


def test_report_has_verdict_moves_budgets_load_and_forecast() -> None:
    text = "\n".join(report_lines(PLAN))
    assert text.startswith("One workload is moved.\nPropagationPolicy/default/web configured\n")
    for part in (
        "Deployment/default/web   Move     Drain   a:4   b:4    2030-01-01 03:00:00Z",
        "budget night: no window is open; happens without this change as well",
        "a         4 -> 0     50.0 % -> 10.0 %",
        "Spread of CPU: 1.0 to 2.0 percentage points.",
        "Evictions begin 330 s after the failure.",
        "Warning: budget default/night: too small",
        "Forecast: the last move is done after 1 h 2 min 5 s.",
        "At most 4 replicas run twice at one time.",
        "Forecast: Deployment/default/web ends in -, not as planned.",
        "1 other workload does not change.",
    ):
        assert part in text
    assert "\nc " not in text
    assert list(report_lines(PLAN.but(unchanged=0)))[-1] == "There are no other workloads."
    assert "\nc " in "\n".join(report_lines(PLAN, wide=True))


def test_long_plans_are_cut_unless_wide() -> None:
    many = PLAN.but(workloads=PLAN.workloads * 100)
    assert "... and 40 more; -o wide shows all." in "\n".join(report_lines(many))
    assert "more;" not in "\n".join(report_lines(many, wide=True))


def test_seconds_are_formatted_in_hours_minutes_and_seconds() -> None:
    assert [format_seconds(n) for n in (0, 59, 60, 3600)] == ["0 s", "59 s", "1 min", "1 h"]
