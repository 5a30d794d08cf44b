"""The disruption gate as a webhook on `pods/eviction` of a stock Kubernetes.

A kube-apiserver calls the webhook once per eviction, before it checks its own PodDisruptionBudgets. The gate checks the
DisruptionBudgets of the pod, the rates of its PodDisruptionBudgets and the quota of the component, and charges them by
compare-and-swap: two evictions never share the last place. A refusal has the code 429, after which `kubectl drain` waits and
tries again; any other code would end it. The time to wait is in the message; Retry-After is short, because clients sleep for all
of it and would not notice a place that becomes free before.

Allowed is not evicted: the API server may still refuse. Then the pod remains without a deletion time, and the controller of
the budget gives the charge back (`decide/pods/budgets/unused_charges.py`). An eviction that is only tried is charged nothing;
`kubectl drain --dry-run=server` says so in the options of the deletion only.

When no webhook answers, the API server evicts by its PodDisruptionBudgets alone (`controllers/pods/budget_floor.py`).
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar, cast

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy, RecentDisruption
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Object, Raw
from trimtab.client.client import Client, resource_of
from trimtab.clock import Clock
from trimtab.decide.pods.budgets import component_quota
from trimtab.decide.pods.budgets.budget import DELETION_DEADLINE
from trimtab.decide.pods.budgets.eviction import BudgetCharge, EvictedPod, Preconditions
from trimtab.decide.pods.budgets.pod_budgets import (
    RATE_ANNOTATION,
    RECENT_ANNOTATION,
    DisruptionCause,
    GuardingBudget,
    PodBudget,
    charge_pod_budget,
    evaluate_eviction,
    guards_pod,
)
from trimtab.errors import ApiError, Cause, Conflict, NotFound, TooManyRequests
from trimtab.server import api_errors
from trimtab.server.subresources.eviction import (
    COMPONENT,
    annotation_causes,
    disruption_cause_from,
    fault_from_refusal,
    refuse_while_frozen,
)
from trimtab.webhook.review import ALLOWED, Refused, Review, Verdict

T = TypeVar("T", bound=Object)
PODS = resource_of(kind_of(Pod))
BUDGETS = resource_of(kind_of(DisruptionBudget))
POD_BUDGETS = resource_of(kind_of(PodDisruptionBudget))
POLICIES = resource_of(kind_of(DisruptionPolicy))
MAX_ATTEMPTS = 5
MAX_RETRY_SECONDS = 10
RETRY_PAUSE_SECONDS = 0.05


class _Eviction(NamedTuple):
    """One eviction that a client asks for."""

    pod: Pod
    cause: DisruptionCause
    preconditions: Preconditions
    dry_run: bool


class _PodsNow:
    """What became of evictions that were admitted: the API server may refuse one afterwards."""

    def __init__(self, pods: Iterable[Pod], now: datetime) -> None:
        self._pods = {f"{pod.namespace}/{pod.name}": pod for pod in pods}
        self._now = now

    def is_untouched(self, disruption: RecentDisruption) -> bool:
        """Whether the pod still runs, so long after its eviction was admitted that it is not evicted any more."""
        pod, at = self._pods.get(disruption.object), disruption.at
        if pod is None or at is None or pod.metadata.deletion_timestamp is not None:
            return False
        created = pod.metadata.creation_timestamp
        return at + DELETION_DEADLINE <= self._now and (created is None or created <= at)

    def is_ongoing(self, name: str, since: datetime | None) -> bool:
        """Whether the pod terminates, or will soon, because its eviction was admitted a moment ago."""
        pod = self._pods.get(name)
        if pod is None:
            return False
        return pod.metadata.deletion_timestamp is not None or (
            since is not None and since + DELETION_DEADLINE > self._now
        )


class EvictionGate:
    """Admits evictions as far as the budgets allow."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.charged = 0
        self.refused = 0

    async def admit(self, review: Review) -> Verdict:
        """Charge the budgets, or refuse the eviction with the reasons of those that do not allow it."""
        body: Raw = review.object or {}
        annotations: Raw = (body.get("metadata") or {}).get("annotations") or {}
        if causes := list(annotation_causes(annotations)):
            raise Refused(api_errors.invalid("Eviction", "policy", review.name, causes))
        try:
            raw = await self._client.get(PODS, review.namespace, review.name)
        except NotFound:
            return ALLOWED  # the API server says so itself
        pod = cast("Pod", kind_of(Pod).decode(raw))
        if EvictedPod(pod.name, phase=pod.status.phase, terminating=bool(pod.metadata.deletion_timestamp)).is_exempt:
            return ALLOWED
        options: Raw = body.get("deleteOptions") or {}
        required: Raw = options.get("preconditions") or {}
        policy = await self._find_policy()
        self._refuse_while_frozen(policy)
        by = component_quota.component_of(policy, review.user) if policy is not None else ""
        eviction = _Eviction(
            pod,
            disruption_cause_from(annotations, by),
            Preconditions(required.get("uid") or "", required.get("resourceVersion") or ""),
            # `kubectl drain --dry-run=server` sets it in the options only, and the review says false.
            dry_run=review.dry_run or "All" in (options.get("dryRun") or ()),
        )
        for _ in range(MAX_ATTEMPTS):
            try:
                await self._charge(eviction)
            except Conflict:  # somebody else charged the same budget: check again what is left
                await asyncio.sleep(RETRY_PAUSE_SECONDS)
            except Refused:
                self.refused += 1
                raise
            else:
                return ALLOWED
        self.refused += 1
        raise Refused(
            TooManyRequests("Cannot evict pod as its disruption budgets change at the moment.", retry_after=1)
        )

    def _refuse_while_frozen(self, policy: DisruptionPolicy | None) -> None:
        try:
            refuse_while_frozen(policy)
        except TooManyRequests as fault:
            self.refused += 1
            raise Refused(with_short_retry(fault)) from fault

    async def _find_policy(self) -> DisruptionPolicy | None:
        try:
            return cast(
                "DisruptionPolicy",
                kind_of(DisruptionPolicy).decode(await self._client.get(POLICIES, "", "default")),
            )
        except NotFound:
            return None

    async def _charge(self, eviction: _Eviction) -> None:
        pod, now = eviction.pod, self._clock.now()
        guards = {(type(one.budget).__name__, one.budget.name): one for one in await self._guards(eviction)}
        verdict = evaluate_eviction(pod, guards.values(), eviction.preconditions, now, several_allowed=True)
        if verdict.refusal is not None:
            raise Refused(with_short_retry(fault_from_refusal(verdict.refusal, pod.name)))
        policy_after = await self._charge_component(eviction)
        if eviction.dry_run:
            return
        charged: list[tuple[PodBudget, PodBudget]] = []
        try:
            for charge in verdict.charges:
                budget = guards[charge.kind, charge.budget].budget
                charged.append((budget, await self._write_charge(eviction, budget, charge)))
            if policy_after is not None:
                await self._client.replace(POLICIES, to_wire(policy_after), subresource="status")
        except BaseException:
            await self._give_back(charged)
            raise
        self.charged += len(charged)

    async def _guards(self, eviction: _Eviction) -> Sequence[GuardingBudget]:
        """The budgets that the eviction is charged to; the API server itself counts the pods of PodDisruptionBudgets."""
        namespace = eviction.pod.namespace
        own = _decode_all(DisruptionBudget, (await self._client.list(BUDGETS, namespace)).items)
        foreign = _decode_all(PodDisruptionBudget, (await self._client.list(POD_BUDGETS, namespace)).items)
        guarding = [one for one in own if guards_pod(one, eviction.pod, eviction.cause)]
        rated = [
            one for one in foreign if RATE_ANNOTATION in one.metadata.annotations and guards_pod(one, eviction.pod)
        ]
        pods = _decode_all(Pod, (await self._client.list(PODS, namespace)).items) if guarding else []
        now = self._clock.now()
        return [
            *(GuardingBudget(one, _count_healthy(one, pods, now)) for one in guarding),
            *(GuardingBudget(one) for one in rated),
        ]

    async def _charge_component(self, eviction: _Eviction) -> DisruptionPolicy | None:
        """The policy with the charged quota of the component; None if there is nothing to charge."""
        policy, cause, pod, now = await self._find_policy(), eviction.cause, eviction.pod, self._clock.now()
        if policy is None or not cause.by:
            return None
        pods = _PodsNow(_decode_all(Pod, (await self._client.list(PODS)).items), now)
        policy = component_quota.forget_refused(policy, pods.is_untouched)
        ongoing = {
            one.object
            for use in policy.status.components
            for one in use.in_flight
            if pods.is_ongoing(one.object, one.since)
        }
        refusal = component_quota.quota_refusal(policy, cause, pod.namespace, ongoing.__contains__, now)
        if refusal is not None:
            fault = TooManyRequests(
                "Cannot evict pod as its evictor has used up its quota.",
                causes=[Cause(COMPONENT, refusal.message)],
                retry_after=refusal.seconds or None,
            )
            raise Refused(with_short_retry(fault))
        after = component_quota.charge_quota(policy, cause, (pod.namespace, pod.name), ongoing.__contains__, now)
        return after if after != policy else None

    async def _write_charge(self, eviction: _Eviction, budget: PodBudget, charge: BudgetCharge) -> PodBudget:
        after = charge_pod_budget(budget, charge, eviction.pod.name, eviction.cause, self._clock.now())
        if isinstance(after, DisruptionBudget):
            written = await self._client.replace(BUDGETS, to_wire(after), subresource="status")
        else:
            written = await self._write_rate(budget, after.metadata.annotations[RECENT_ANNOTATION])
        return cast("PodBudget", kind_of(budget).decode(written))

    async def _write_rate(self, budget: PodBudget, times: str | None) -> Raw:
        metadata = {
            "resourceVersion": budget.metadata.resource_version,
            "annotations": {RECENT_ANNOTATION: times},
        }
        return await self._client.patch(POD_BUDGETS, budget.namespace, budget.name, {"metadata": metadata})

    async def _give_back(self, charged: Iterable[tuple[PodBudget, PodBudget]]) -> None:
        """Restore budgets that were charged for an eviction that another budget refuses.

        A budget that changed meanwhile keeps the charge; its controller gives it back later.
        """
        for before, after in charged:
            try:
                if isinstance(before, DisruptionBudget):
                    metadata = before.metadata.but(resource_version=after.metadata.resource_version)
                    await self._client.replace(BUDGETS, to_wire(before.but(metadata=metadata)), subresource="status")
                else:
                    await self._write_rate(after, before.metadata.annotations.get(RECENT_ANNOTATION))
            except (Conflict, NotFound):
                continue


def with_short_retry(refusal: ApiError) -> ApiError:
    """The refusal with the reasons in its message, and a Retry-After for which a client may sleep."""
    if not isinstance(refusal, TooManyRequests):
        return refusal
    reasons = "; ".join(cause.message for cause in refusal.causes)
    wait = min(refusal.retry_after or MAX_RETRY_SECONDS, MAX_RETRY_SECONDS)
    message = f"{refusal.message} {reasons}".strip()
    return TooManyRequests(message, causes=refusal.causes, retry_after=wait)


def _decode_all(type_: type[T], items: Sequence[Raw]) -> list[T]:
    return [cast("T", kind_of(type_).decode(one)) for one in items]


def _count_healthy(budget: DisruptionBudget, pods: Sequence[Pod], now: datetime) -> int:
    granted = {name for name, at in budget.status.disrupted_pods.items() if at + DELETION_DEADLINE > now}
    selector = budget.spec.selector or LabelSelector()
    return sum(
        pod.is_ready
        and pod.metadata.deletion_timestamp is None
        and pod.name not in granted
        and selector.matches(pod.metadata.labels)
        for pod in pods
    )
