"""The result of a plan as typed values: what happens to each workload, the moves, refusals, budgets and load."""

import hashlib
from datetime import datetime
from typing import Annotated

import msgspec

from trimtab.api.kinds.work import TargetCluster
from trimtab.api.value import Field, Value, never_omit
from trimtab.dryrun.change import Change

FORMAT = "trimtab-plan/1"
NO_CHANGE, CHANGES, VIOLATIONS = "NoChange", "Changes", "Violations"
EVICTION_STOPPED = "EvictionStopped"
"""The refusal of a workload that stays in a failed cluster because too many have failed."""
EXIT_CODES = {NO_CHANGE: 0, CHANGES: 2, VIOLATIONS: 3}
CREATE, MOVE, SCALE, RELEASE, REFUSED, UNCHANGED = "Create", "Move", "Scale", "Release", "Refused", "Unchanged"
NOW, STEPS, LATER, WHEN_APPROVED, NEVER = "Now", "InSteps", "Later", "WhenApproved", "Never"
STARTS = (NOW, STEPS, LATER, WHEN_APPROVED, NEVER)
"""When something starts, the earliest first."""
Shares = tuple[TargetCluster, ...]


class PlannedRefusal(Value):
    """Why something does not happen, or not yet."""

    code: str
    message: str
    until: Annotated[datetime | None, Field("When time alone removes the obstacle; absent: time alone does not.")] = (
        None
    )
    is_violation: Annotated[bool, Field("Whether it needs a person: waiting does not help.")] = False


class PlannedWorkload(Value):
    """What happens to one workload."""

    workload: Annotated[str, Field("Kind/namespace/name.")]
    action: Annotated[str, Field(enum=(CREATE, MOVE, SCALE, RELEASE, REFUSED, UNCHANGED))]
    cause: str = ""
    before: Shares = ()
    after: Shares = ()
    start: Annotated[str, Field("When it starts.", enum=STARTS)] = NOW
    starts_at: Annotated[datetime | None, Field("The earliest start, if time alone decides.")] = None
    mode: str = ""
    note: str = ""
    refusal: PlannedRefusal | None = None
    is_pending: Annotated[bool, Field("Whether it happens without the change as well.")] = False
    lost_replicas: Annotated[int, Field("Replicas that are down until they run elsewhere.")] = 0


class PlannedMove(Value):
    """Replicas that leave one cluster, and where they start again; in the order in which the moves begin."""

    workload: str
    cause: str
    source: Annotated[str, Field("The cluster that the replicas leave.")] = msgspec.field(name="from")
    to: tuple[TargetCluster, ...] = ()
    replicas: int = 0
    mode: str = ""
    start: str = NOW
    starts_at: datetime | None = None
    message: str = ""


class BudgetCost(Value):
    """What the plan asks of one budget."""

    budget: Annotated[str, Field("Namespace/name.")]
    moves: Annotated[int, Field("Moves that count as disruptions: one per workload and cluster that it leaves.")] = 0
    started: Annotated[int, Field("Moves of these that may begin now.")] = 0
    replicas: Annotated[int, Field("Replicas that the moves take along.")] = 0
    allowed_now: Annotated[int | None, Field("Disruptions that the budget allows now.")] = None
    next_at: Annotated[datetime | None, Field("When the budget allows the next one.")] = None
    lost: Annotated[int, Field("Ready replicas that failing clusters take away.")] = 0
    missing: Annotated[int, Field("Replicas below the minimum right after the failure.")] = 0


class ClusterLoad(Value):
    """Requested resources of one cluster before and after, as parts of what it can allocate."""

    cluster: str
    region: str = ""
    is_lost: bool = False
    replicas_before: int = never_omit(0)
    replicas_after: int = never_omit(0)
    cpu_before: float | None = None
    cpu_after: float | None = None
    memory_before: float | None = None
    memory_after: float | None = None
    pods_before: float | None = None
    pods_after: float | None = None


class Forecast(Value):
    """What the same control plane does on a virtual clock, started from a copy of the state."""

    finished: Annotated[bool, Field("Whether nothing moves any more at the end.")] = False
    finish_seconds: Annotated[float | None, Field("Seconds until the last move is done.")] = None
    peak_surge: Annotated[int, Field("The most replicas that run twice at one time.")] = 0
    fewest_ready: Annotated[dict[str, int], Field("The fewest ready replicas of each moved workload.")] = {}
    placements: Annotated[dict[str, Shares], Field("The clusters of each changed workload at the end.")] = {}
    differs: Annotated[tuple[str, ...], Field("Workloads that end in other clusters than the plan says.")] = ()
    waits_until: Annotated[
        datetime | None, Field("When a move may begin that is not done because the forecast ends before.")
    ] = None
    seconds_simulated: float = 0.0


class Verdict(Value):
    """The plan in one word and one sentence."""

    outcome: Annotated[str, Field(enum=(NO_CHANGE, CHANGES, VIOLATIONS))]
    message: str
    is_worse: Annotated[bool, Field("Whether a rebalance spreads load worse than now.")] = False
    spread_before: Annotated[float | None, Field("Standard deviation of requested CPU over clusters, in percent.")] = (
        None
    )
    spread_after: float | None = None


class Plan(Value):
    """What a change would do to a fleet."""

    format: str = never_omit(FORMAT)
    created: datetime | None = None
    profile: str = "trimtab"
    hash: Annotated[str, Field("Digest of the change and of what it does; the times are not part of it.")] = ""
    change: Change = never_omit(Change())
    verdict: Verdict = never_omit(Verdict(outcome=NO_CHANGE, message=""))
    objects: Annotated[tuple[str, ...], Field("What applying the objects does to each: created or configured.")] = ()
    workloads: Annotated[tuple[PlannedWorkload, ...], Field("Every workload that changes or is refused.")] = ()
    unchanged: Annotated[int, Field("The number of other workloads.")] = never_omit(0)
    moves: tuple[PlannedMove, ...] = ()
    budgets: tuple[BudgetCost, ...] = ()
    load: tuple[ClusterLoad, ...] = ()
    warnings: tuple[str, ...] = ()
    evacuation_starts_after: Annotated[float | None, Field("Seconds from a failure until workloads are evicted.")] = (
        None
    )
    forecast: Forecast | None = None

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict.outcome]

    @property
    def refusals(self) -> tuple[PlannedWorkload, ...]:
        """The workloads that are refused or delayed."""
        return tuple(item for item in self.workloads if item.refusal is not None)


def digest_of(plan: Plan) -> str:
    """The digest of what is planned: equal for equal changes with equal consequences, whenever they are computed."""
    rows = [
        (item.workload, item.action, item.cause, shares_key(item.before), shares_key(item.after))
        for item in plan.workloads
    ]
    content = msgspec.json.encode([plan.format, plan.profile, plan.change, sorted(rows)], order="deterministic")
    return hashlib.sha256(content).hexdigest()


def shares_key(shares: Shares) -> list[tuple[str, int]]:
    return sorted((target.name, target.replicas) for target in shares)


def differences(old: Plan, new: Plan) -> list[str]:
    """How a plan that is made again differs, one sentence per workload."""
    before = {item.workload: item for item in old.workloads}
    after = {item.workload: item for item in new.workloads}
    found = []
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was is None:
            found.append(f"{name}: now part of the plan ({describe(now)})")
        elif now is None:
            found.append(f"{name}: no longer part of the plan (was {describe(was)})")
        elif describe(was) != describe(now):
            found.append(f"{name}: was {describe(was)}, is now {describe(now)}")
    return found


def describe(item: PlannedWorkload | None) -> str:
    if item is None:
        return "nothing"
    return f"{item.action} {format_shares(item.before)} -> {format_shares(item.after)}"


def format_shares(targets: Shares) -> str:
    return " ".join(f"{t.name}:{t.replicas}" if t.replicas else t.name for t in targets) or "-"
