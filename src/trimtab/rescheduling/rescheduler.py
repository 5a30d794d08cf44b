"""The rescheduler loop: reads a cluster each round, plans moves, evicts through the API server, and tracks outcomes."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import msgspec

from trimtab import plugins
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.config import ConfigMap
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import Profile
from trimtab.api.value import Raw
from trimtab.api.yaml_documents import YamlError, load_yaml
from trimtab.client.client import Client, resource_of
from trimtab.clock import Clock
from trimtab.controllers.contract import RecordEvent, Ref
from trimtab.controllers.well_known import ref_of_raw
from trimtab.decide.pods.descheduling.policy import DeschedulerPolicy, read_policy, run_cycle
from trimtab.decide.pods.fit.requests import Amounts
from trimtab.decide.pods.metrics.measurements import UsageMetrics, shift_averages, update_averages
from trimtab.decide.pods.pod_traits import REQUEST_EVICT_ONLY_ANNOTATION
from trimtab.decide.rescheduling.history import DONE, LANDED_BACK, PENDING, ReschedulingHistory
from trimtab.decide.rescheduling.move_simulation import SHORT, PlannedMove, RejectedMove, overlap_message
from trimtab.decide.rescheduling.objectives import objectives
from trimtab.decide.rescheduling.plan import ReschedulingPlan, move_record, plan_moves, plan_policy_moves
from trimtab.decide.rescheduling.settings import ReschedulerSettings, read_settings
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot
from trimtab.errors import ApiError, Conflict, InputError, NotFound, TooManyRequests
from trimtab.rescheduling.avoid_lists import AvoidLists
from trimtab.rescheduling.cluster_snapshot import read_cluster_objects, read_metrics
from trimtab.rescheduling.eviction_client import evict, eviction_body, refusal_message
from trimtab.runtime.effects.event_recorder import EventRecorder
from trimtab.telemetry import HistogramSeries, Sample

NAMESPACE, NAME, STATE = "kube-system", "trimtab-rescheduler", "trimtab-rescheduler-state"
COMPONENT = "trimtab-rescheduler"
HTTP_INTERNAL_ERROR = 500
EVACUATION_MESSAGE = "Eviction triggered evacuation"
"""The message of a webhook that refuses an eviction because it moves the pod itself."""
CONFIG_MAPS = resource_of(kind_of(ConfigMap))
IDLE_SECONDS = 60.0
STATE_WRITE_ATTEMPTS = 3
METRICS_INTERVAL_SECONDS = 5.0
"""How often node metrics are read between rounds, where they are used."""
log = logging.getLogger("trimtab.rescheduler")


class ReschedulerConfig(NamedTuple):
    """The ConfigMap: our settings, or a DeschedulerPolicy with settings."""

    settings: ReschedulerSettings
    policy: DeschedulerPolicy | None = None


def read_config(data: dict[str, str]) -> ReschedulerConfig:
    """Read the ConfigMap; raises `InputError` with a message for an event."""
    plugins.load()
    known = {one.name: one.args for one in objectives.values()}
    try:
        if "policy.yaml" in data:
            policy = read_policy(load_yaml(data["policy.yaml"]) or {})
            # the policy decides which moves are worthwhile; settings beside it decide how carefully they are made
            own = load_yaml(data.get("rescheduler.yaml", "")) or {"preset": "aggressive"}
            return ReschedulerConfig(read_settings(own, known), policy)
        return ReschedulerConfig(read_settings(load_yaml(data.get("rescheduler.yaml", "")), known))
    except YamlError as fault:
        raise InputError(f"not YAML: {fault}") from fault


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
        self._fixed_config, self._reservations = fixed_config, reservations
        self._reported_frozen: set[str] = set()
        self._stored_data: dict[str, str] = {}
        self._stored_revision = ""
        self._recorder = EventRecorder(client)
        self._avoid_lists = AvoidLists(client, self._recorder)
        self._config: ReschedulerConfig | None = fixed_config
        self._version = ""
        self._history: ReschedulingHistory | None = None
        self._averages: dict[str, Amounts] = {}
        self._notes: tuple[str, ...] = ()
        self.config_error = ""
        """Why the newest configuration is not in effect; empty when it is."""
        self.last_plan: ReschedulingPlan | None = None
        self.rounds = 0
        """The number of rounds, with a configuration or without."""
        self._task: asyncio.Task[None] | None = None

    @property
    def is_configured(self) -> bool:
        return self._config is not None

    @property
    def follows_policy(self) -> bool:
        """Whether a DeschedulerPolicy selects the moves, not our objectives."""
        return self._config is not None and self._config.policy is not None

    @property
    def goals(self) -> str:
        """A short description of what it optimises."""
        if self._config is None:
            return "nothing is rescheduled"
        if self._config.policy is not None:
            named = [profile.name for profile in self._config.policy.profiles]
            return f"DeschedulerPolicy: {', '.join(named) or 'no profiles'}"
        settings = self._config.settings
        wanted = ", ".join(one.name for one in settings.objectives if one.enabled)
        return f"{wanted or 'no objectives'}: {settings.preset}"

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
        config = self._config
        left = config.settings.interval_seconds if config else IDLE_SECONDS
        while left > 0 and self._config is config:
            pause = min(left, METRICS_INTERVAL_SECONDS if self._uses_metrics else IDLE_SECONDS)
            await asyncio.sleep(pause)
            left -= pause
            if left > 0:
                with contextlib.suppress(ApiError, OSError, TimeoutError):
                    self._smooth_metrics(await read_metrics(self._client) if self._uses_metrics else None)
                    await self._reload_configuration()

    @property
    def _uses_metrics(self) -> bool:
        """Whether measured usage counts, not only requests."""
        return self._config is not None and self._config.policy is not None and self._config.policy.uses_metrics

    def _smooth_metrics(self, measures: UsageMetrics | None) -> UsageMetrics | None:
        if measures is None or not self._uses_metrics:
            return measures
        self._averages = update_averages(self._averages, measures.nodes)
        return measures._replace(averages=self._averages)

    # one round

    async def run_round(self) -> ReschedulingPlan | None:
        """Read, plan, save, move; None when nothing is configured."""
        await self._reload_configuration()
        if self._config is None:
            return None
        snapshot, found = await self.plan_round()
        self._notes = found.notes
        if not self._embedded:
            await self._avoid_lists.remove_expired(snapshot.objects, snapshot.now)
        history = found.history.with_moves([move_record(move, snapshot) for move in found.moves], snapshot.now)
        await self._save_history(history)  # before anything moves: a process that restarts in between must know
        stay: list[RejectedMove] = []
        for move in found.moves:
            if (reason := await self._evict(move, snapshot)) is not None:
                stay.append(RejectedMove(move.pod, move.objective, move.gain, reason))
                history = history.without_move(move.pod.pod.metadata.uid)
        await self._save_history(history)
        self._record_frozen_owners(snapshot)
        await self._recorder.wait_until_written()
        stays = {one.pod.key for one in stay}
        moves = tuple(move for move in found.moves if move.pod.key not in stays)
        self.last_plan = found._replace(moves=moves, rejected=(*found.rejected, *stay), history=history)
        return self.last_plan

    async def plan_round(self, *, confirmations: int | None = None) -> tuple[ReschedulingSnapshot, ReschedulingPlan]:
        """The plan of a round, without executing it."""
        if self._config is None:
            raise InputError(f"there is no ConfigMap {NAMESPACE}/{NAME}")
        objects = await read_cluster_objects(self._client, is_stock=not self._embedded)
        objects = objects._replace(measures=self._smooth_metrics(objects.measures))
        snapshot = ReschedulingSnapshot(objects, self._config.settings, await self._load_history(), self._clock.now())
        if self._config.policy is None:
            return snapshot, plan_moves(snapshot, confirmations=confirmations)
        return snapshot, self._plan_by_policy(snapshot, self._config.policy)

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
        history = self._history or ReschedulingHistory()
        outcomes = Counter(move.outcome or "InProgress" for move in history.moves)
        yield Sample("trimtab_rescheduler_rounds_total", self.rounds)
        for outcome in ("InProgress", DONE, LANDED_BACK, PENDING):
            yield Sample("trimtab_rescheduler_moves", outcomes[outcome], {"outcome": outcome})
        yield Sample("trimtab_rescheduler_moves_wasted", sum(move.is_wasted for move in history.moves))
        yield Sample(
            "trimtab_rescheduler_pods_rejected", len(self.last_plan.rejected) if self.last_plan is not None else 0
        )
        yield Sample("trimtab_rescheduler_owners_frozen", len(history.frozen_owners))
        yield Sample("trimtab_rescheduler_configuration_refused", int(bool(self.config_error)))

    async def load_configuration(self) -> None:
        """Read the configuration once, for callers that do not run rounds."""
        await self._reload_configuration()
        if self.config_error and self._config is None:
            raise InputError(self.config_error)

    async def _reload_configuration(self) -> None:
        if self._fixed_config is not None:
            return
        try:
            raw = await self._client.get(CONFIG_MAPS, NAMESPACE, NAME)
        except NotFound:
            self._config, self._version, self.config_error = None, "", ""
            return
        if raw["metadata"]["resourceVersion"] == self._version:
            return
        self._version = raw["metadata"]["resourceVersion"]
        try:
            self._config, self.config_error = read_config(raw.get("data") or {}), ""
        except InputError as fault:
            self.config_error = str(fault)
            kept = "the previous one stays in effect" if self._config else "nothing is rescheduled"
            self._record_event(raw, "InvalidConfiguration", f"{fault}; {kept}", warning=True)

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
        policy = self._config.policy if self._config is not None else None
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

    def _record_event(self, about: Raw, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an event; nothing depends on it."""
        kind = "Warning" if warning else "Normal"
        note = RecordEvent(ref_of_raw(about), reason, message, COMPONENT, kind)
        self._recorder.record(note, self._clock.now())

    # history

    async def _load_history(self) -> ReschedulingHistory:
        """The history of earlier rounds, including those before a restart."""
        if self._history is None:
            self._history = ReschedulingHistory()
            with contextlib.suppress(NotFound, msgspec.DecodeError):
                raw = await self._client.get(CONFIG_MAPS, NAMESPACE, STATE)
                self._stored_data, self._stored_revision = raw.get("data") or {}, raw["metadata"]["resourceVersion"]
                self._history = msgspec.json.decode(
                    self._stored_data.get("history.json", "{}"), type=ReschedulingHistory
                )
        return self._history

    async def _save_history(self, history: ReschedulingHistory) -> None:
        """Save what must survive a restart, if it differs from what is stored."""
        self._history = history
        lasting = history.persistent_part(self._clock.now())
        data = {
            "history.json": msgspec.json.encode(lasting).decode(),
            "summary": summarize_history(lasting),
            "conditions.json": msgspec.json.encode(self._conditions(lasting)).decode(),
        }
        if data == self._stored_data or (
            not self._stored_data and lasting == ReschedulingHistory() and not self.config_error and not self._notes
        ):
            return
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": STATE, "namespace": NAMESPACE},
            "data": data,
        }
        written = await self._write_state(body)
        self._stored_data, self._stored_revision = data, written["metadata"]["resourceVersion"]

    async def _write_state(self, body: Raw) -> Raw:
        """Write the state over the version that this process knows, and over a version that a user wrote in between.

        A former leader has stopped before its successor reads the state, so only users and restores write it meanwhile.
        """
        for _ in range(STATE_WRITE_ATTEMPTS):
            revision = {"metadata": {"resourceVersion": self._stored_revision}} if self._stored_revision else {}
            try:
                return await self._client.patch(
                    CONFIG_MAPS, NAMESPACE, STATE, {"data": body["data"], **revision}, manager=COMPONENT
                )
            except NotFound:
                return await self._client.create(CONFIG_MAPS, body, manager=COMPONENT)
            except Conflict:
                found = await self._client.get(CONFIG_MAPS, NAMESPACE, STATE)
                self._stored_revision = found["metadata"]["resourceVersion"]
        raise Conflict("other clients keep changing this object", kind=CONFIG_MAPS.plural, name=STATE)

    def _conditions(self, history: ReschedulingHistory) -> list[Raw]:
        """The conditions of the rescheduler for people and alerts: a ConfigMap has no status."""
        frozen = history.frozen_owners
        accepted = {"type": "ConfigurationAccepted", "status": "False" if self.config_error else "True"}
        stuck = {"type": "OwnersSuspended", "status": "True" if frozen else "False"}
        limited = {
            "type": "RescheduleLimited",
            "status": "True" if self._notes else "False",
            "message": "; ".join(self._notes),
        }
        return [{**accepted, "message": self.config_error}, {**stuck, "message": ", ".join(frozen)}, limited]


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


def summarize_history(history: ReschedulingHistory) -> str:
    done = sum(move.outcome == DONE for move in history.moves)
    wasted = sum(move.is_wasted for move in history.moves)
    frozen = history.frozen_owners
    text = f"{len(history.moves)} moves in a day, {done} arrived, {wasted} wasted"
    return f"{text}; suspended: {', '.join(frozen)}" if frozen else text
