"""Watches every change in a fleet and reports each change that violates an invariant."""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from compat.flow_availability import PODS, Workload, is_ready, workload_of
from move_helpers import MoveScenario

from trimtab.api.value import Raw
from trimtab.clock import LoopClock
from trimtab.store.records import StoreEvent
from trimtab.store.store import Store

BINDINGS = "/registry/work.karmada.io/resourcebindings/"
MOVES = "/registry/trimtab.dev/moves/"
WRITE_DELAY = timedelta(seconds=2)
"""All writes of one change happen within this time, even with restarts in between."""


class FleetObserver:
    """Watches the stores of the host and of the members, independently of the control plane."""

    def __init__(self, harness: MoveScenario, *, block: timedelta = timedelta()) -> None:
        self._harness = harness
        self._block = block
        self.violations: list[str] = []
        self.moves: dict[str, Raw] = {}
        self.bindings: dict[str, Raw] = {}
        self.ready: dict[str, set[tuple[str, str]]] = {}
        self.min_ready: dict[str, int] = {}
        self.min_ready_total = 0
        self._watch_tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        stores = {member.name: member.server.store for member in self._harness.world}
        self._watch_tasks = [loop.create_task(self._watch_member(name, store)) for name, store in stores.items()]
        self._watch_tasks.append(loop.create_task(self._watch_host(self._harness.fleet.host.store)))

    def stop(self) -> None:
        for task in self._watch_tasks:
            task.cancel()
            if task.done() and not task.cancelled():
                task.result()

    def report_violation(self, text: str) -> None:
        at = (LoopClock().now() - datetime(2030, 1, 1, tzinfo=LoopClock().now().tzinfo)).total_seconds()
        self.violations.append(f"{at:.3f} {text}")

    # changes in members

    async def _watch_member(self, member: str, store: Store) -> None:
        async for events in store.watch(PODS):
            for event in events:
                self._on_pod_event(member, event)

    def _on_pod_event(self, member: str, event: StoreEvent) -> None:
        value = event.value or event.prev_value
        pod: Raw = json.loads(value) if value else {}
        workload = workload_of(pod)
        if workload is None:
            return
        pods = self.ready.setdefault(workload.name, set())
        place = (member, event.key)
        if event.value is not None and is_ready(pod):
            pods.add(place)
            return
        taken = place in pods and pod["metadata"].get("deletionTimestamp") is not None
        pods.discard(place)
        self.min_ready[workload.name] = min(self.min_ready.get(workload.name, 0), len(pods))
        self.min_ready_total = min(self.min_ready_total, sum(map(len, self.ready.values())))
        if taken and not pods and self._has_replicas(workload):
            self.report_violation(f"the last ready copy of {workload.name} was removed from {member}")

    def _has_replicas(self, workload: Workload) -> bool:
        binding = self.bindings.get(f"{BINDINGS}{workload.namespace}/{workload.name}-deployment")
        return binding is not None and binding["spec"].get("replicas", 0) > 0

    def reset_minimums(self) -> None:
        self.min_ready = {name: len(pods) for name, pods in self.ready.items()}
        self.min_ready_total = sum(self.min_ready.values())

    # writes of the control plane

    async def _watch_host(self, store: Store) -> None:
        async for events in store.watch("/registry/"):
            for event in events:
                if event.key.startswith(MOVES):
                    self._on_move_event(event)
                elif event.key.startswith(BINDINGS):
                    self._on_binding_event(event)

    def _on_move_event(self, event: StoreEvent) -> None:
        if event.value is None:
            return
        self.moves[event.key] = json.loads(event.value)

    def _on_binding_event(self, event: StoreEvent) -> None:
        if event.value is None:
            self.bindings.pop(event.key, None)
            return
        new = json.loads(event.value)
        old = json.loads(event.prev_value) if event.prev_value else {}
        self.bindings[event.key] = new
        had, has = replicas_by_cluster(old), replicas_by_cluster(new)
        if had == has or new["metadata"].get("deletionTimestamp"):
            return
        for name in sorted(had):
            if has.get(name, -1) < had[name] and not self._is_loss_explained(new, name, had, has):
                self.report_violation(
                    f"no Move explains fewer replicas of {new['metadata']['name']} in {name}: {had} -> {has}"
                )
        for name in sorted(has):
            if had.get(name, -1) < has[name]:
                self._check_gain(old, new, name, had, has)

    def _check_gain(self, old: Raw, new: Raw, name: str, had: dict[str, int], has: dict[str, int]) -> None:
        if name in blocked_clusters(old, LoopClock().now(), self._block) and name not in had:
            self.report_violation(f"{new['metadata']['name']} is placed in the blocked cluster {name}: {had} -> {has}")
        if not self._is_gain_explained(new, name, had, has):
            self.report_violation(
                f"no Move explains more replicas of {new['metadata']['name']} in {name}: {had} -> {has}"
            )

    def _is_loss_explained(self, binding: Raw, name: str, had: dict[str, int], has: dict[str, int]) -> bool:
        """Whether a move leaves this cluster, or a move is reverted and its source gets its replicas back."""
        return any(
            move["spec"]["from"] == name or has.get(move["spec"]["from"], -1) > had.get(move["spec"]["from"], -1)
            for move in self.moves_of(binding)
        )

    def _is_gain_explained(self, new: Raw, name: str, had: dict[str, int], has: dict[str, int]) -> bool:
        """Whether a move targets this cluster, a move from it is reverted, or there are more replicas to place."""
        loses = any(has.get(other, -1) < n for other, n in had.items())
        if any(
            name in target_clusters(move) or (move["spec"]["from"] == name and loses) for move in self.moves_of(new)
        ):
            return True
        return sum(has.values()) > sum(had.values()) and not self.moves_of(new)

    def moves_of(self, binding: Raw) -> list[Raw]:
        """The moves of this workload that are in progress or ended within the last two seconds."""
        about = binding["spec"]["resource"]
        return [
            move
            for move in self.moves.values()
            if (move["spec"]["object"]["kind"], move["spec"]["object"]["name"]) == (about["kind"], about["name"])
            and (not outcome(move) or LoopClock().now() - parse_time(move["status"]["finished"]) <= WRITE_DELAY)
        ]

    # budgets

    def budget_violations(self, budget: Raw) -> Iterator[str]:
        """Violations of the budget's rate and of its limit of concurrent moves."""
        charged = [move for move in self.moves.values() if move["spec"].get("budgets")]
        rate = budget.get("rate")
        if rate:
            period = timedelta(seconds=int(rate["period"].removesuffix("s")))
            starts = sorted(parse_time(move["status"]["started"]) for move in charged)
            for at in starts:
                spent = sum(at <= other < at + period for other in starts)
                if spent > rate["disruptions"]:
                    yield f"{spent} disruptions in {period} from {at} on"
        most = budget.get("maxConcurrent")
        if most:
            spans = [(parse_time(m["status"]["started"]), m["status"].get("finished")) for m in charged]
            for at, _ in spans:
                going = sum(b <= at and (e is None or parse_time(e) > at) for b, e in spans)
                if going > most:
                    yield f"{going} moves at once at {at}"


def replicas_by_cluster(binding: Raw) -> dict[str, int]:
    return {t["name"]: t.get("replicas", 0) for t in binding.get("spec", {}).get("clusters") or ()}


def target_clusters(move: Raw) -> set[str]:
    return {to["name"] for to in move["spec"].get("to") or ()}


def outcome(move: Raw) -> str:
    return (move.get("status") or {}).get("outcome", "")


def blocked_clusters(binding: Raw, now: datetime, block: timedelta) -> set[str]:
    """The clusters that a failover left less than `block` ago."""
    entries = binding.get("spec", {}).get("activeEvictionHistory") or ()
    return {e["clusterName"] for e in entries if parse_time(e["creationTimestamp"]) + block > now}


def parse_time(text: Any) -> datetime:
    return datetime.fromisoformat(text)
