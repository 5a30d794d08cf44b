"""Forecasts: how long a plan takes and how many replicas run twice, found by running it on a virtual clock.

A plan knows the end state and what may begin now. When the rest happens depends on budgets, windows and how fast pods start,
and on how these play together. So a forecast starts the same control plane with simulated members from the same state
(`saved_fleet`), waits until its workloads run, carries the change out and observes the bindings every second until
nothing moves any more. `pace` says how fast pods start in the simulation.

A fleet that waits, such as for a window of a budget, costs as much as one that moves, per simulated hour. So nodes send no
heartbeats, bindings are looked at rarely while they do not change, and a window after the horizon is not waited for.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import NamedTuple, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.client.approvals import approve_move
from trimtab.client.client import Client, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.movement.approval import text_of
from trimtab.controllers.well_known import APPROVED_MOVE
from trimtab.dryrun.change import lost_clusters
from trimtab.dryrun.fleet_state import FleetState
from trimtab.dryrun.plan_cases import workload_name
from trimtab.dryrun.plan_result import NEVER, REFUSED, Forecast, Plan, PlannedWorkload, shares_key
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.runtime.cache import CacheEntry, Table
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.member_server import seeded_uids
from trimtab.store.store import Store
from trimtab.stories.saved_fleet import fleet_plan_of, load_saved_state, ready_in, wait_until_workloads_run

CarryOut = Callable[[Client, Plan, datetime], AsyncIterator[str]]
QUIET_SECONDS = 60.0
"""How long nothing may change before the plan counts as done."""
STUCK_SECONDS = 900.0
"""How long nothing may change before a forecast ends without the planned result."""
IDLE_INTERVAL = 15.0
"""Seconds between two looks at a fleet in which no binding changes."""
REAL_SECONDS = 600.0


class ForecastOptions(NamedTuple):
    """How the simulation runs."""

    pace: str = "typical"
    horizon_seconds: float = 4 * 3600.0
    interval: float = 1.0
    seed: int = 0


def forecast(state: FleetState, plan: Plan, carry_out: CarryOut, options: ForecastOptions) -> Forecast:
    """Run the plan on a virtual clock; `carry_out` writes its change, as `trimtab apply-plan` does."""
    return run_virtually(simulate_plan(state, plan, carry_out, options), timeout=REAL_SECONDS)


async def simulate_plan(state: FleetState, plan: Plan, carry_out: CarryOut, options: ForecastOptions) -> Forecast:
    clock = LoopClock(state.now - timedelta(seconds=asyncio.get_running_loop().time()))
    rng = random.Random(f"{options.seed}/forecast")  # noqa: S311 - a forecast must be repeatable
    uids = seeded_uids(rng)
    host = ApiServer(
        Store(),
        ApiServerSettings(clock=clock, plugins=[PeerWebhooks(uids)], new_uid=uids, token_key=rng.randbytes(32)),
    )
    await host.start()
    fleet = EmbeddedFleet(
        fleet_plan_of(state, options.pace).but(heartbeat=0.0),
        host=host,
        clock=clock,
        profile=state.profile,
        settings=state.settings,
        seed=options.seed,
    )
    try:
        await fleet.start()
        await load_saved_state(fleet, state)
        observation = Observation(fleet, state, plan)
        await wait_until_workloads_run(fleet, state)
        observation.watch()
        for name in lost_clusters(state, plan.change):
            fleet.world[name].stop_api()
        async for _ in carry_out(fleet.client, plan, clock.now()):
            pass
        return await observation.observe(options)
    finally:
        await fleet.stop()
        await host.stop()


class Observation:
    """Watches the bindings of a simulated fleet while a plan is carried out."""

    def __init__(self, fleet: EmbeddedFleet, state: FleetState, plan: Plan) -> None:
        self._fleet = fleet
        self._plan = plan
        lost = set(lost_clusters(state, plan.change))
        failed = {cluster.name for cluster in state.all(Cluster) if not is_ready(cluster)}
        self._reachable = {cluster.name for cluster in state.all(Cluster)} - lost - failed
        self._expected = {
            row.workload: shares_key(row.after)
            for row in plan.workloads
            if row.action != REFUSED and row.start != NEVER
        }
        self._surges: dict[str, int] = {}
        self._peak_surge = 0
        self._fewest_ready: dict[str, int] = {}
        self._changed = asyncio.Event()

    def watch(self) -> None:
        """Record every change of the bindings from now on, also those between two looks at the whole fleet."""
        for table in self._tables():
            table.add_listener(self._binding_changed)

    def _binding_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        entry = new or old
        if entry is None:
            return
        self._changed.set()
        binding = cast("Binding", entry.typed)
        name = workload_name(binding)
        self._surges[name] = surge_of(binding, self._reachable) if new is not None else 0
        self._peak_surge = max(self._peak_surge, sum(self._surges.values()))
        if new is not None and name in self._expected:
            ready = sum(ready_in(binding, cluster) for cluster in self._reachable)
            self._fewest_ready[name] = min(ready, self._fewest_ready.get(name, ready))

    async def observe(self, options: ForecastOptions) -> Forecast:
        loop = asyncio.get_running_loop()
        began = loop.time()
        last_change, signature = 0.0, None
        while True:
            bindings = self._bindings()
            elapsed = loop.time() - began
            now = [(workload_name(b), shares_key(b.spec.clusters), in_progress(b), ready_of(b)) for b in bindings]
            if now != signature:
                signature, last_change = now, elapsed if signature is not None else 0.0
            await self._approve_moves(bindings)
            reached, busy = self._is_reached(bindings), await self._is_busy(bindings)
            quiet = elapsed - last_change
            if (reached and not busy and quiet >= QUIET_SECONDS) or elapsed >= options.horizon_seconds:
                break
            if quiet >= max(STUCK_SECONDS, self._longest_wait(options.horizon_seconds)) and not busy:
                break
            await self._sleep(options.interval, options.horizon_seconds - elapsed, is_idle=quiet >= QUIET_SECONDS)
        done = not busy and (reached or (elapsed < options.horizon_seconds and self._has_left(bindings)))
        return self._result(bindings, done, last_change, elapsed).but(
            waits_until=None if done else self._next_start_after(options.horizon_seconds)
        )

    async def _sleep(self, interval: float, most: float, *, is_idle: bool) -> None:
        """Sleep for the interval; in a fleet that waits, longer, but not beyond the next change of a binding."""
        if not is_idle:
            await asyncio.sleep(interval)
            return
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), min(IDLE_INTERVAL, most))

    def _result(self, bindings: list[Binding], done: bool, last_change: float, elapsed: float) -> Forecast:
        placements = {workload_name(b): b.spec.clusters for b in bindings}
        return Forecast(
            finished=done,
            finish_seconds=last_change if done else None,
            peak_surge=self._peak_surge,
            fewest_ready={name: self._fewest_ready.get(name, 0) for name in self._expected},
            placements={name: placements.get(name, ()) for name in self._expected},
            differs=tuple(
                name for name, shares in self._expected.items() if shares_key(placements.get(name, ())) != shares
            ),
            seconds_simulated=elapsed,
        )

    async def _approve_moves(self, bindings: list[Binding]) -> None:
        """A forecast assumes that a person approves at once."""
        for binding in bindings:
            pending = binding.status.pending_approval
            if pending is not None and binding.metadata.annotations.get(APPROVED_MOVE) != text_of(pending):
                await approve_move(self._fleet.client, binding)

    def _longest_wait(self, horizon: float) -> float:
        """Seconds until the last start within the horizon that the plan knows, and some more."""
        delays = [delay for start in self._known_starts() if (delay := self._delay(start)) <= horizon]
        return max(delays) + STUCK_SECONDS if delays else 0.0

    def _next_start_after(self, horizon: float) -> datetime | None:
        return min((start for start in self._known_starts() if self._delay(start) > horizon), default=None)

    def _known_starts(self) -> list[datetime]:
        starts = [row.starts_at for row in self._plan.workloads if row.starts_at is not None]
        return starts + [cost.next_at for cost in self._plan.budgets if cost.next_at is not None]

    def _delay(self, start: datetime) -> float:
        return (start - self._plan.created).total_seconds() if self._plan.created is not None else 0.0

    def _is_reached(self, bindings: list[Binding]) -> bool:
        found = {workload_name(binding): shares_key(binding.spec.clusters) for binding in bindings}
        return all(found.get(name) == shares for name, shares in self._expected.items())

    def _has_left(self, bindings: list[Binding]) -> bool:
        """Whether nothing is to move any more, although some workloads are in other clusters than planned.

        Where a policy divides by free capacity, the shares depend on the moment of each decision. Such a workload has moved
        when no replica is missing, none is where none stays, and nothing refuses a part of the move.
        """
        found = {workload_name(binding): binding for binding in bindings}
        return all(
            row.workload in found and has_moved(found[row.workload], row)
            for row in self._plan.workloads
            if row.workload in self._expected
        )

    async def _is_busy(self, bindings: list[Binding]) -> bool:
        """Whether a move is in progress; tasks of clusters that cannot be reached end with them, so they do not count."""
        if any(in_progress(binding) for binding in bindings):
            return True
        kind = kind_of(Move)
        raws = (await self._fleet.client.list(resource_of(kind))).items
        return any(
            not (raw.get("status") or {}).get("outcome") for raw in raws if raw["spec"]["from"] in self._reachable
        )

    def _tables(self) -> list[Table]:
        if self._fleet.plane is None:
            return []
        return [self._fleet.plane.cache.table_of(type_) for type_ in (ResourceBinding, ClusterResourceBinding)]

    def _bindings(self) -> list[Binding]:
        return [cast("Binding", entry.typed) for table in self._tables() for entry in table.entries.values()]


def surge_of(binding: Binding, reachable: set[str]) -> int:
    """The replicas that run twice: those that are held, or evicted gracefully, in clusters that can be reached."""
    held = sum(hold.replicas for hold in binding.status.holds if hold.cluster in reachable)
    tasks = binding.spec.graceful_eviction_tasks
    return held + sum(task.replicas or 0 for task in tasks if task.from_cluster in reachable)


def has_moved(binding: Binding, row: PlannedWorkload) -> bool:
    shares = {target.name: target.replicas for target in binding.spec.clusters}
    planned = {target.name: target.replicas for target in row.after}
    if shares == planned:
        return True
    before = {target.name: target.replicas for target in row.before}
    left = before.keys() - planned.keys()
    return (
        shares != before
        and sum(shares.values()) == sum(planned.values())
        and not left & shares.keys()
        and not is_condition_true(binding.status.conditions, "Stalled")
    )


def in_progress(binding: Binding) -> bool:
    return bool(binding.status.holds)


def ready_of(binding: Binding) -> int:
    return sum(ready_in(binding, item.cluster_name) for item in binding.status.aggregated_status)
