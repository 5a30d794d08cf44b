"""The line under the navigation of every page: the state of the fleet in seven numbers."""

from trimtab.api.kinds.disruption import OutageThresholds
from trimtab.console.facts import Facts
from trimtab.console.page import PageContext
from trimtab.console.permissions import sees
from trimtab.console.workload_facts import MOVING, NOWHERE, SHORT, STUCK, WAITING
from trimtab.controllers.movement.taint_eviction import is_storm
from trimtab.decide.freeze import format_freeze, freeze_of


class Pulse(Facts):
    clusters: int
    ready_clusters: int
    stuck: int
    waiting: int
    short: int
    moves: int
    moving_replicas: int
    moving: int
    ready: int
    desired: int
    budgets: int
    open_budgets: int
    storm: str
    """quiet, slow or stop."""
    dark_share: float = 0.0
    hidden: int = 0
    sees_clusters: bool = True
    """Whether the user may list clusters; their numbers are left out otherwise."""
    freeze: str = ""
    """Why nothing may move; empty when moves are not frozen."""


PULSE_TOPICS = ("clusters", "workloads", "moves", "budgets", "policy")


def pulse_of(context: PageContext) -> Pulse:
    model, visibility = context.model, context.visibility
    clusters = list(model.clusters.values()) if visibility.clusters else []
    sums = model.sums(visibility.workloads)
    flows = model.sums(visibility.moves)
    budgets = [budget for budget in model.budgets.values() if sees(visibility.budgets, budget.namespace)]
    ready = sum(cluster.is_ready for cluster in clusters)
    return Pulse(
        clusters=len(clusters),
        ready_clusters=ready,
        stuck=sums.states[NOWHERE] + sums.states[STUCK],
        waiting=sums.states[WAITING],
        short=sums.states[SHORT],
        moving=sums.states[MOVING],
        moves=flows.moves,
        moving_replicas=flows.moving_replicas,
        ready=sums.ready,
        desired=sums.desired,
        budgets=len(budgets),
        open_budgets=sum(budget.open for budget in budgets),
        storm=storm_state(thresholds_of(context), len(clusters) - ready, len(clusters)),
        dark_share=1 - ready / len(clusters) if clusters else 0.0,
        hidden=visibility.hidden,
        sees_clusters=visibility.clusters,
        freeze=format_freeze(freeze) if (freeze := freeze_of(context.model.policy)) is not None else "",
    )


def thresholds_of(context: PageContext) -> OutageThresholds:
    policy = context.model.policy
    return (policy.spec.storm if policy is not None else None) or OutageThresholds()


def storm_begins(thresholds: OutageThresholds, state: str, total: int) -> int | None:
    """From how many clusters that are not ready on the brake is in this state; None when so many do not exist."""
    states = ("slow", "stop") if state == "slow" else ("stop",)
    return next((dark for dark in range(1, total + 1) if storm_state(thresholds, dark, total) in states), None)


def storm_state(thresholds: OutageThresholds, dark: int, total: int) -> str:
    if is_storm(thresholds.stop_above, dark, total, thresholds):
        return "stop"
    return "slow" if is_storm(thresholds.slow_above, dark, total, thresholds) else "quiet"
