"""Preemption in a simulated cluster: selects victims for a pod that fits on no node, and evicts them."""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, cast

from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy, DisruptionPolicySpec
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.network import Service
from trimtab.api.profile import Profile
from trimtab.api.value import Object
from trimtab.clock import Clock
from trimtab.controllers.contract import RecordEvent
from trimtab.decide.pods.budgets.budget_status import preemption_budget
from trimtab.decide.pods.budgets.pod_budgets import DisruptionCause, counts_cause, is_over_pods
from trimtab.decide.pods.node_info import PodInfo
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.preemption.fair_share import FairShareInput
from trimtab.decide.pods.preemption.preempt import (
    PREEMPTION_REASON,
    SYSTEM_CRITICAL,
    Preemption,
    PreemptionBudget,
    PreemptionCandidate,
    predict_replacements,
    preempt,
)
from trimtab.errors import ApiError, NotFound, TooManyRequests
from trimtab.runtime.cache import Cache
from trimtab.runtime.effects.event_recorder import EventRecorder
from trimtab.simulate.scheduling.disruption_ledger import TYPES_READ, DisruptionLedger
from trimtab.simulate.scheduling.pod_status_writer import PODS, PodStatusWriter
from trimtab.simulate.workloads.owned_pods import ref_to

PREEMPTION_CAUSE = DisruptionCause("preemption", "Preemption")
DEFAULT_GRACE_SECONDS = 30


class PlannedPreemption(NamedTuple):
    """The victims chosen for one pod, and the event message about them."""

    candidate: PreemptionCandidate
    message: str
    decided_at: datetime


class Preemptor:
    """Selects and evicts victims according to priorities, disruption budgets and fair shares."""

    def __init__(self, cache: Cache, *, clock: Clock, profile: Profile, status: PodStatusWriter) -> None:
        self._cache = cache
        self._client = cache.client
        self._clock = clock
        self._profile = profile
        self._status = status
        self._ledger = DisruptionLedger(cache)
        self._recorder = EventRecorder(self._client)

    def types_read(self) -> list[type[Object]]:
        """Types whose tables must be synced before the first preemption."""
        types: list[type[Object]] = [DisruptionBudget, DisruptionPolicy, PodDisruptionBudget, Service]
        return types + list(TYPES_READ if self._profile.preemption_spreads_disruptions else ())

    def plan(self, pod: PodInfo, fleet: NodeSnapshot) -> PlannedPreemption | None:
        """Select the victims whose eviction makes the pod fit; None if no eviction helps."""
        now = self._clock.now()
        burdens = self._ledger.recent_disruptions(now) if self._profile.preemption_spreads_disruptions else None
        rules = self._profile.but(preemption_obeys_budgets=self._budgets_are_binding)
        found = preempt(pod, fleet, self._covers(), rules, fairness=self._fairness(pod), disruptions=burdens)
        if not isinstance(found, Preemption):
            return None
        return PlannedPreemption(found.chosen, _event_message(pod, found.chosen, fleet), now)

    async def execute(self, pod: PodInfo, planned: PlannedPreemption) -> None:
        """Write the nomination, then evict the victims; if that fails, the victims are not charged to their owners."""
        charged = self._ledger.charge(planned.candidate.victims, planned.decided_at)
        try:
            await self._status.set_nominated_node(pod.pod, planned.candidate.node)
            await self._evict(pod, planned.candidate)
        except (ApiError, OSError, TimeoutError):
            self._ledger.refund(charged)
            raise
        if self._profile.preemption_spreads_disruptions:
            event = RecordEvent(ref_to(pod.pod), "Preempting", planned.message, "default-scheduler")
            self._recorder.record(event, planned.decided_at)

    async def _evict(self, pod: PodInfo, chosen: PreemptionCandidate) -> None:
        """Evict through the disruption gate, unless budgets are not binding or the pod is system-critical."""
        critical = pod.priority >= SYSTEM_CRITICAL
        if not self._budgets_are_binding or (critical and chosen.violations):
            await self._delete_each(chosen.victims)
            return
        try:
            await self._evict_together(pod, chosen.victims)
        except TooManyRequests:
            if not critical:
                raise
            await self._delete_each(chosen.victims)

    async def _evict_together(self, pod: PodInfo, victims: Sequence[PodInfo]) -> None:
        """Evict all victims in one request, or none."""
        if not victims:
            return
        first, *others = victims
        annotations = {"trimtab.dev/requested-by": PREEMPTION_CAUSE.by, "reason": f"capacity for {'/'.join(pod.key)}"}
        if others:
            annotations["trimtab.dev/evict-together-with"] = ",".join("/".join(one.key) for one in others)
        metadata = {"name": first.name, "namespace": first.namespace, "annotations": annotations}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        await self._client.submit(PODS, first.namespace, first.name, "eviction", eviction)

    async def _delete_each(self, victims: Sequence[PodInfo]) -> None:
        """Set the condition and delete, as kube-scheduler does; no budget can refuse a deletion."""
        disruption_target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": PREEMPTION_REASON,
            "message": "default-scheduler: preempting to accommodate a higher priority pod",
        }
        for victim in victims:
            await self._status.set_condition(victim.pod, disruption_target)
            with contextlib.suppress(NotFound):
                await self._client.delete(PODS, victim.namespace, victim.name, uid=victim.pod.metadata.uid)

    @property
    def _budgets_are_binding(self) -> bool:
        """Whether a disruption budget can refuse a preemption."""
        return self._profile.preemption_obeys_budgets and self._policy().preemption_budgets != "BestEffort"

    def _policy(self) -> DisruptionPolicySpec:
        entry = self._cache.table_of(DisruptionPolicy).entries.get(("", "default"))
        return cast("DisruptionPolicy", entry.typed).spec if entry else DisruptionPolicySpec()

    def _fairness(self, pod: PodInfo) -> FairShareInput | None:
        since = pod.pod.metadata.creation_timestamp
        if self._policy().equal_priority_preemption != "Fair" or since is None:
            return None
        services: dict[str, list[Mapping[str, str]]] = {}
        for entry in self._cache.table_of(Service).entries.values():
            services.setdefault(entry.name[0], []).append(cast("Service", entry.typed).spec.selector)
        return FairShareInput(self._clock.now(), since, self._ledger.claimants(), services)

    def _covers(self) -> list[PreemptionBudget]:
        # Without our extension, budgets count as kube-scheduler counts them: without the time.
        now = self._clock.now() if self._profile.preemption_obeys_budgets else None
        found = [
            preemption_budget(cast("PodDisruptionBudget", entry.typed), now)
            for entry in self._cache.table_of(PodDisruptionBudget).entries.values()
        ]
        if now is not None:
            own = [
                cast("DisruptionBudget", entry.typed)
                for entry in self._cache.table_of(DisruptionBudget).entries.values()
            ]
            found += [
                preemption_budget(budget, now)
                for budget in own
                if is_over_pods(budget) and counts_cause(budget, PREEMPTION_CAUSE)
            ]
        return found


def max_grace_seconds(pods: Sequence[PodInfo]) -> int:
    """The longest termination grace period of these pods."""
    times = [one.pod.spec.termination_grace_period_seconds for one in pods]
    return max((DEFAULT_GRACE_SECONDS if time is None else time for time in times), default=0)


def _event_message(pod: PodInfo, chosen: PreemptionCandidate, fleet: NodeSnapshot) -> str:
    """Who is evicted for this pod, and what happens to each replacement."""
    outcomes = [f"{'/'.join(one.key)} ({outcome})" for one, outcome in predict_replacements(pod, chosen, fleet)]
    return f"evicts {', '.join(outcomes)} from {chosen.node}"
