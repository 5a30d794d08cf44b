"""The rescheduler loop: reads a cluster each round, plans moves, evicts through the API server, and tracks outcomes."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import Profile
from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.clock import Clock
from trimtab.controllers.contract import RecordEvent, Ref
from trimtab.controllers.well_known import ref_of_raw
from trimtab.decide.pods.descheduling.policy import DeschedulerPolicy, run_cycle
from trimtab.decide.pods.fit.requests import Amounts
from trimtab.decide.pods.metrics.measurements import UsageMetrics, shift_averages, update_averages
from trimtab.decide.pods.pod_traits import REQUEST_EVICT_ONLY_ANNOTATION
from trimtab.decide.rescheduling.history import DONE, LANDED_BACK, PENDING, ReschedulingHistory
from trimtab.decide.rescheduling.move_simulation import SHORT, PlannedMove, RejectedMove, overlap_message
from trimtab.decide.rescheduling.plan import ReschedulingPlan, move_record, plan_moves, plan_policy_moves
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot
from trimtab.errors import ApiError, InputError, NotFound, TooManyRequests
from trimtab.rescheduling.avoid_lists import AvoidLists
from trimtab.rescheduling.cluster_snapshot import read_cluster_objects, read_metrics
from trimtab.rescheduling.configuration import NAME, NAMESPACE, Configuration, ReschedulerConfig
from trimtab.rescheduling.eviction_client import evict, eviction_body, refusal_message
from trimtab.rescheduling.stored_history import COMPONENT, StoredHistory
from trimtab.runtime.effects.event_recorder import EventRecorder
from trimtab.telemetry import HistogramSeries, Sample

HTTP_INTERNAL_ERROR = 500
EVACUATION_MESSAGE = "Eviction triggered evacuation"
"""The message of a webhook that refuses an eviction because it moves the pod itself."""
IDLE_SECONDS = 60.0
METRICS_INTERVAL_SECONDS = 5.0
"""How often node metrics are read between rounds, where they are used."""
log = logging.getLogger("trimtab.rescheduler")


class NodeReservations(Protocol):
    """The scheduler of an embedded cluster, which can reserve a node for a pod that does not exist yet."""

    def keep(self, pod: Pod, node: str) -> None:
        """Reserve the node for the replacement of this pod."""
        ...

    def let_go(self, pod: Pod) -> None:
        """Remove the reservation."""
        ...


class Rescheduler:
    """One loop over one cluster, through any API server."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        profile: Profile,
        embedded: bool = False,
        reservations: NodeReservations | None = None,
        fixed_config: ReschedulerConfig | None = None,
    ) -> None:
        """`embedded` means that the cluster is ours: its evictions keep avoid lists, and its scheduler honours them.

        `reservations` reserves the capacity that a step of a chain has freed; elsewhere another pod may take it.
        """
        self._client, self._clock, self._profile, self._embedded = client, clock, profile, embedded
        self._reservations = reservations
        self._reported_frozen: set[str] = set()
        self._recorder = EventRecorder(client)
        self._avoid_lists = AvoidLists(client, self._recorder)
        self.configuration = Configuration(client, fixed_config, self._record_invalid_configuration)
        self.stored = StoredHistory(client, clock.now)
        self._averages: dict[str, Amounts] = {}
        self.last_plan: ReschedulingPlan | None = None
        self.rounds = 0
        """The number of rounds, with a configuration or without."""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self.run(), name="rescheduler")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def run(self) -> None:
        while True:
            try:
                await self.run_round()
                self.rounds += 1
            except (ApiError, OSError, TimeoutError) as fault:
                log.warning("the round failed: %s", fault)
            await self._wait_for_next_round()

    async def _wait_for_next_round(self) -> None:
        """Wait until the next round, or until the configuration changes.

        With metrics, usage is read meanwhile, so that a single peak does not decide.
        """
        config = self.configuration.current
        left = config.settings.interval_seconds if config else IDLE_SECONDS
        while left > 0 and self.configuration.current is config:
            pause = min(left, METRICS_INTERVAL_SECONDS if self.configuration.uses_metrics else IDLE_SECONDS)
            await asyncio.sleep(pause)
            left -= pause
            if left > 0:
                with contextlib.suppress(ApiError, OSError, TimeoutError):
                    self._smooth_metrics(await read_metrics(self._client) if self.configuration.uses_metrics else None)
                    await self.configuration.reload()

    def _smooth_metrics(self, measures: UsageMetrics | None) -> UsageMetrics | None:
        if measures is None or not self.configuration.uses_metrics:
            return measures
        self._averages = update_averages(self._averages, measures.nodes)
        return measures._replace(averages=self._averages)

    # one round

    async def run_round(self) -> ReschedulingPlan | None:
        """Read, plan, save, move; None when nothing is configured."""
        await self.configuration.reload()
        if self.configuration.current is None:
            return None
        snapshot, found = await self.plan_round()
        if not self._embedded:
            await self._avoid_lists.remove_expired(snapshot.objects, snapshot.now)
        history = found.history.with_moves([move_record(move, snapshot) for move in found.moves], snapshot.now)
        await self.stored.save(
            history, self.configuration.error, found.notes
        )  # before anything moves: a process that restarts in between must know
        stay: list[RejectedMove] = []
        for move in found.moves:
            if (reason := await self._evict(move, snapshot)) is not None:
                stay.append(RejectedMove(move.pod, move.objective, move.gain, reason))
                history = history.without_move(move.pod.pod.metadata.uid)
        await self.stored.save(history, self.configuration.error, found.notes)
        self._record_frozen_owners(snapshot)
        await self._recorder.wait_until_written()
        stays = {one.pod.key for one in stay}
        moves = tuple(move for move in found.moves if move.pod.key not in stays)
        self.last_plan = found._replace(moves=moves, rejected=(*found.rejected, *stay), history=history)
        return self.last_plan

    async def plan_round(self, *, confirmations: int | None = None) -> tuple[ReschedulingSnapshot, ReschedulingPlan]:
        """The plan of a round, without executing it."""
        if self.configuration.current is None:
            raise InputError(f"there is no ConfigMap {NAMESPACE}/{NAME}")
        objects = await read_cluster_objects(self._client, is_stock=not self._embedded)
        objects = objects._replace(measures=self._smooth_metrics(objects.measures))
        snapshot = ReschedulingSnapshot(
            objects, self.configuration.current.settings, await self.stored.load(), self._clock.now()
        )
        if self.configuration.current.policy is None:
            return snapshot, plan_moves(snapshot, confirmations=confirmations)
        return snapshot, self._plan_by_policy(snapshot, self.configuration.current.policy)

    def _plan_by_policy(self, snapshot: ReschedulingSnapshot, policy: DeschedulerPolicy) -> ReschedulingPlan:
        """The moves of a DeschedulerPolicy: its plugins select; our checks apply unless the profile is upstream."""
        turn = run_cycle(policy, snapshot.cluster_view, self._profile, snapshot.objects.measures)
        if self._profile.descheduler_simulates_moves:
            return plan_policy_moves(snapshot, turn)
        found = tuple(PlannedMove(one.pod, one.node, "", one.strategy, 0.0, one.reason) for one in turn.evictions)
        refused = tuple(RejectedMove(one.pod, one.strategy, 0.0, one.reason) for one in turn.rejected)
        return ReschedulingPlan(found, refused, snapshot.history, tuple(turn.notes))

    @property
    def is_ready(self) -> bool:
        """Whether a round has ended, so that everything it needs can be read."""
        return self.rounds > 0

    def histograms(self) -> Iterator[HistogramSeries]:
        return iter(())

    def samples(self) -> Iterator[Sample]:
        """Metrics; moves are those of the last day, as far as they are recorded."""
        history = self.stored.history or ReschedulingHistory()
        outcomes = Counter(move.outcome or "InProgress" for move in history.moves)
        yield Sample("trimtab_rescheduler_rounds_total", self.rounds)
        for outcome in ("InProgress", DONE, LANDED_BACK, PENDING):
            yield Sample("trimtab_rescheduler_moves", outcomes[outcome], {"outcome": outcome})
        yield Sample("trimtab_rescheduler_moves_wasted", sum(move.is_wasted for move in history.moves))
        yield Sample(
            "trimtab_rescheduler_pods_rejected", len(self.last_plan.rejected) if self.last_plan is not None else 0
        )
        yield Sample("trimtab_rescheduler_owners_frozen", len(history.frozen_owners))
        yield Sample("trimtab_rescheduler_configuration_refused", int(bool(self.configuration.error)))

    # moves

    async def _evict(self, move: PlannedMove, snapshot: ReschedulingSnapshot) -> str | None:
        """Evict the pod through the API server; returns why not when it refuses."""
        pod = move.pod.pod
        raw = kind_of(Pod).encode(pod)
        noted = {
            "reason": f"{move.objective}: {move.reason}",
            "trimtab.dev/prefer-avoid": "true",
            "trimtab.dev/expected-node": move.expected,
        }
        if move.avoid == SHORT:
            noted["trimtab.dev/prefer-avoid-until"] = f"scheduled:{move.for_pod}"
        if move.chain_name:
            noted["trimtab.dev/move-plan"] = move.chain_name
        kept = self._reservations if move.chain_name and move.expected else None
        if kept is not None:
            kept.keep(pod, move.expected)  # before the eviction: its replacement is created at once
        policy = self.configuration.policy
        grace = policy.grace_period_seconds if policy is not None else None
        try:
            await evict(self._client, raw, eviction_body(raw, by="rescheduler", annotations=noted, grace=grace))
        except NotFound:
            return "it no longer exists"
        except ApiError as fault:
            if _is_evacuation_requested(pod, fault):
                self._record_event(raw, "EvictionRequested", f"{move.objective}: {move.reason}")
                return None
            if kept is not None:
                kept.let_go(pod)
            reason = _overlap_reason(fault, move, snapshot) or refusal_message(fault)
            log.info("%s/%s stays: %s", pod.namespace, pod.name, reason)
            if policy is not None and policy.eviction_failure_event_notification:
                self._record_event(raw, "EvictionFailed", f"{move.objective}: {reason}", warning=True)
            return reason
        if self._profile.descheduler_simulates_moves and snapshot.objects.measures is not None:
            used = snapshot.objects.measures.pods.get(move.pod.key, {})
            self._averages = shift_averages(self._averages, used, move.source, move.expected)
        if not self._embedded:
            await self._avoid_lists.add(move, snapshot)
        message = (
            f"moved from {move.source} by the rescheduler ({move.objective}, gain {move.gain:.0f} %): {move.reason}"
        )
        self._record_event(raw, "Rescheduled", message)
        self._record_owner_event(pod, f"{pod.name} {message}")
        return None

    def _record_owner_event(self, pod: Pod, message: str) -> None:
        """Record an event on the owner, which outlives the pod."""
        if (owner := pod.controller) is not None:
            about = Ref(owner.api_version, owner.kind, pod.namespace, owner.name, owner.uid)
            self._recorder.record(RecordEvent(about, "Rescheduled", message, COMPONENT), self._clock.now())

    def _record_frozen_owners(self, snapshot: ReschedulingSnapshot) -> None:
        """Record an event on owners that had too many wasted moves and are no longer moved."""
        for one in (*snapshot.objects.deployments, *snapshot.objects.sets):
            uid = one.metadata.uid
            if snapshot.history.is_frozen(uid) and uid not in self._reported_frozen:
                self._reported_frozen.add(uid)
                message = "its pods had three wasted moves in a row and are not moved any more"
                self._record_event(kind_of(type(one)).encode(one), "ReschedulingSuspended", message, warning=True)

    def _record_invalid_configuration(self, about: Raw, message: str) -> None:
        self._record_event(about, "InvalidConfiguration", message, warning=True)

    def _record_event(self, about: Raw, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an event; nothing depends on it."""
        kind = "Warning" if warning else "Normal"
        note = RecordEvent(ref_of_raw(about), reason, message, COMPONENT, kind)
        self._recorder.record(note, self._clock.now())


def _is_evacuation_requested(pod: Pod, fault: ApiError) -> bool:
    """Whether another component has taken over the move of the pod."""
    return (
        isinstance(fault, TooManyRequests)
        and REQUEST_EVICT_ONLY_ANNOTATION in pod.metadata.annotations
        and EVACUATION_MESSAGE in fault.message
    )


def _overlap_reason(fault: ApiError, move: PlannedMove, snapshot: ReschedulingSnapshot) -> str | None:
    """Kubernetes refuses to evict a pod with two budgets; name them."""
    if fault.code != HTTP_INTERNAL_ERROR or "PodDisruptionBudget" not in fault.message:
        return None
    return overlap_message(snapshot.budgets_of(move.pod.pod))
