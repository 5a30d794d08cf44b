"""The history of the rescheduler after a new look at the cluster: what became of moves, restarts, scales and pressure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.pod_traits import REQUEST_EVICT_ONLY_ANNOTATION
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects
from trimtab.decide.rescheduling.history import (
    DONE,
    LANDED_BACK,
    PENDING,
    PENDING_TIMEOUT,
    MoveRecord,
    NodePressure,
    OwnerScale,
    ReschedulingHistory,
    RestartRecord,
)
from trimtab.decide.rescheduling.pod_owners import PodOwners
from trimtab.decide.rescheduling.settings import ReschedulerSettings

RESTART_HISTORY_TTL, YOUNG_POD_AGE = timedelta(hours=1), timedelta(minutes=30)
MAX_RESTART_RECORDS = 5000
EVACUATION_TIMEOUT = timedelta(minutes=10)
"""How long another component may take to move a pod after it was requested."""
CPU_PRESSURE = "CPUPressure"
"""The condition of nodes on which containers wait for CPU, where a component reports it."""
CPU_SATURATION_PERCENT = 95
"""CPU usage in percent from which a node counts as under pressure, where no component reports it."""


class HistoryUpdate:
    """Compares a history with the cluster as it is now."""

    def __init__(
        self,
        objects: ClusterObjects,
        settings: ReschedulerSettings,
        cluster_view: ClusterView,
        nodes: Iterable[NodeInfo],
        owners: PodOwners,
        now: datetime,
    ) -> None:
        self._objects = objects
        self._settings = settings
        self._cluster_view = cluster_view
        self._nodes = nodes
        self._owners = owners
        self._now = now

    def apply_to(self, history: ReschedulingHistory) -> ReschedulingHistory:
        """The history up to now: outcomes of moves, times of scaling, durations of node pressure."""
        self._owners.load_pods(move.owner for move in history.moves if not move.outcome)
        taken: set[str] = set()
        moves = tuple(move for one in history.moves if (move := self._update_move(one, taken)) is not None)
        return history.but(
            moves=moves,
            scales=self._owner_scales(history),
            pressures=self._node_pressures(history),
            falls=self._restart_records(history) if self._uses_poor_service else (),
        )

    @property
    def _uses_poor_service(self) -> bool:
        return any(one.name == "PoorService" and one.enabled for one in self._settings.objectives)

    def _restart_records(self, history: ReschedulingHistory) -> tuple[RestartRecord, ...]:
        """Restarts when they are observed: the API server reports how many there were, not when."""
        before: dict[str, int] = {}
        for fall in history.falls:
            before[fall.pod] = max(before.get(fall.pod, 0), fall.restarts)
        removed = set(before)
        found = [one for one in history.falls if self._now - (one.at or self._now) <= RESTART_HISTORY_TTL]
        for one in self._cluster_view.all_pods:
            restarts = restart_count(one.pod)
            removed.discard(one.pod.metadata.uid)
            if restarts and restarts != before.get(one.pod.metadata.uid, 0):
                found.append(self._restart_record(one.pod, restarts, before.get(one.pod.metadata.uid)))
        return tuple(one for one in found if one.pod not in removed)[-MAX_RESTART_RECORDS:]

    def _restart_record(self, pod: Pod, restarts: int, before: int | None) -> RestartRecord:
        """For a pod that is observed for the first time only restarts that must be recent count."""
        if before is None:
            started = pod.status.start_time
            young = started is not None and self._now - started <= YOUNG_POD_AGE
            before = 0 if young else max(0, restarts - 1)
        return RestartRecord(
            pod=pod.metadata.uid,
            owner=self._owners.of(pod).uid,
            node=pod.spec.node_name,
            times=max(0, restarts - before),
            killed=was_oom_killed(pod),
            at=last_termination(pod) or self._now,
            restarts=restarts,
        )

    def _update_move(self, move: MoveRecord, assigned: set[str]) -> MoveRecord | None:
        """The outcome of a move; None when it was recorded and never made."""
        if move.outcome or move.at is None:
            return move
        still = next((pod for pod in self._owners.pods_of(move.owner) if pod.metadata.uid == move.pod), None)
        if still is not None:
            patience = (
                EVACUATION_TIMEOUT if REQUEST_EVICT_ONLY_ANNOTATION in still.metadata.annotations else PENDING_TIMEOUT
            )
            ends = still.metadata.deletion_timestamp is not None or self._now - move.at < patience
            return move if ends else None
        replacements = [
            pod
            for pod in self._owners.pods_of(move.owner)
            if (pod.metadata.creation_timestamp or move.at) >= move.at.replace(microsecond=0)
            and pod.metadata.uid != move.pod
            and pod.metadata.uid not in assigned
        ]
        settled = sorted((pod for pod in replacements if pod.spec.node_name), key=lambda pod: pod.name)
        if settled:
            replacement = settled[0]
            assigned.add(replacement.metadata.uid)
            node = replacement.spec.node_name
            return move.but(outcome=LANDED_BACK if node == move.source else DONE, target=node)
        if self._now - move.at >= PENDING_TIMEOUT:
            return move.but(outcome=PENDING if replacements else DONE)
        return move

    def _owner_scales(self, history: ReschedulingHistory) -> tuple[OwnerScale, ...]:
        before = {one.owner: one for one in history.scales}
        found = []
        for owner in self._owners:
            known = before.get(owner.uid)
            same = known is not None and known.replicas == owner.replicas
            since = known.since if same and known is not None else (self._now if known is not None else None)
            found.append(OwnerScale(owner=owner.uid, replicas=owner.replicas, since=since))
        return tuple(found)

    def _node_pressures(self, history: ReschedulingHistory) -> tuple[NodePressure, ...]:
        """Nodes under CPU pressure: by condition, or by measured usage; none without metrics."""
        if self._objects.measures is None:
            return ()
        found = []
        for node_info in self._nodes:
            condition = next((one for one in node_info.node.status.conditions if one.type == CPU_PRESSURE), None)
            used = self._objects.measures.nodes.get(node_info.name, {}).get("cpu", 0)
            size = node_info.allocatable.get("cpu", 0)
            if condition is not None:
                if condition.status == "True":
                    found.append(
                        NodePressure(node=node_info.name, since=condition.last_transition_time or self._now, told=True)
                    )
            elif size and 100 * used >= CPU_SATURATION_PERCENT * size:
                found.append(
                    NodePressure(node=node_info.name, since=history.pressure_since(node_info.name) or self._now)
                )
        return tuple(found)


def restart_count(pod: Pod) -> int:
    return max((one.restart_count for one in pod.status.container_statuses), default=0)


def was_oom_killed(pod: Pod) -> bool:
    """Whether a container last ended because of memory."""
    ends = [end for one in pod.status.container_statuses for end in (one.last_state.terminated, one.state.terminated)]
    return any(end is not None and end.reason == "OOMKilled" for end in ends)


def last_termination(pod: Pod) -> datetime | None:
    ends = [one.last_state.terminated for one in pod.status.container_statuses]
    return max((end.finished_at for end in ends if end is not None and end.finished_at is not None), default=None)
