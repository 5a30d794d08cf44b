"""The pods/eviction subresource: a pod is evicted if every budget allows it; budgets and pod are written together."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from trimtab.api.duration import format_timedelta, is_duration, parse_duration
from trimtab.api.field_errors import invalid, not_supported
from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DISRUPTION_REASONS as DISRUPTIONS
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import OwnerReference, Raw
from trimtab.clock import Clock, timestamp
from trimtab.decide.freeze import freeze_refusal
from trimtab.decide.pods import avoid_list
from trimtab.decide.pods.budgets import component_quota
from trimtab.decide.pods.budgets.budget import DELETION_DEADLINE
from trimtab.decide.pods.budgets.eviction import BudgetCharge, EvictedPod, EvictionRefusal, Preconditions
from trimtab.decide.pods.budgets.pod_budgets import (
    UNLIMITED,
    DisruptionCause,
    GuardingBudget,
    PodBudget,
    charge_pod_budget,
    evaluate_eviction,
    guards_pod,
)
from trimtab.decide.pods.preemption.recent_disruptions import POD_EVICTED_REASON
from trimtab.errors import ApiError, BadRequest, Cause, Conflict, Forbidden, TooManyRequests
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.auth.user import MASTERS, Caller
from trimtab.server.registry.deletion import plan_deletion
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.options import DeleteOptions, parse_delete_options
from trimtab.server.resources import ObjectPath
from trimtab.server.storage.object_codec import unpack
from trimtab.server.storage.staged_objects import StagedObjects
from trimtab.server.subresources.eviction_events import EventSubject, build_event, subject_of
from trimtab.store.keys import namespace_below, object_key, own_key, resource_prefix
from trimtab.store.txn import Operation, Proposal, StagedState

_BUDGETS: Sequence[tuple[type[PodBudget], str, str]] = (
    (PodDisruptionBudget, "policy", "poddisruptionbudgets"),
    (DisruptionBudget, "trimtab.dev", "disruptionbudgets"),
)
_POLICY = object_key("trimtab.dev", "disruptionpolicies", "default")
_USAGE_WITHOUT_POLICY = own_key("disruptionpolicy")
"""Usage of component quotas while there is no DisruptionPolicy: the default quotas apply anyway."""
_PREFIX, _SCHEDULED_PREFIX = "trimtab.dev/", "scheduled:"
DEFAULT_REASONS = {"rescheduler": "Reschedule", "drain": "Drain", "preemption": "Preemption", "delete": "Delete"}
"""The default reason of each component."""
_UNSAFE_OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
BUDGET, COMPONENT, FREEZE = "DisruptionBudget", "ComponentQuota", "Freeze"


class _PodMetadata(msgspec.Struct, rename="camel"):
    name: str
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _PodCondition(msgspec.Struct):
    type: str
    status: str


class _PodConditions(msgspec.Struct):
    conditions: list[_PodCondition] | None = None


class _PodHealth(msgspec.Struct):
    """The fields of a stored pod that say whether it is healthy."""

    metadata: _PodMetadata
    status: _PodConditions | None = None

    @property
    def is_healthy(self) -> bool:
        conditions = (self.status.conditions if self.status else None) or ()
        return not self.metadata.deletion_timestamp and any(
            c.type == "Ready" and c.status == "True" for c in conditions
        )


_pod_health_decoder = msgspec.json.Decoder(_PodHealth)


class EvictionOrder(NamedTuple):
    """What an eviction requests."""

    options: DeleteOptions
    disruption_cause: DisruptionCause
    avoidance: avoid_list.AvoidEntry | None = None
    reason: str = ""
    hints: tuple[str, ...] = ()
    """What the requester expects to follow; for messages only."""


class EvictionSubresource:
    """Serves `pods/NAME/eviction`, also from within the process."""

    def __init__(self, resource_store: ResourceStore, *, several_budgets: bool) -> None:
        self._resource_store = resource_store
        self._several_budgets = several_budgets
        """Check all budgets against the current pods; otherwise at most one budget, by its status."""

    async def evict(self, where: ObjectPath, body: Raw, caller: Caller, *, dry_run: bool) -> str:
        """Evict or refuse; returns the remaining budgets as text."""
        if (body.get("metadata") or {}).get("name") != where.name:
            raise BadRequest("name in URL does not match name in Eviction object")
        options = _delete_options(where, body.get("deleteOptions"))
        annotations: Raw = body["metadata"].get("annotations") or {}
        if self._several_budgets and (causes := list(annotation_causes(annotations))):
            raise api_errors.invalid("Eviction", "policy", where.name, causes)
        now = self._resource_store.clock.now()
        order = EvictionOrder(
            options,
            disruption_cause_from(annotations, self._component(caller)),
            _avoidance_from(annotations, now),
            str(annotations.get("reason") or ""),
            tuple(_hints_from(annotations)),
        )
        pods = [where, *self._further_pods(where, annotations.get(f"{_PREFIX}evict-together-with", ""), caller)]
        for pod in pods:
            old = unpack(pod.served, self._resource_store.entry(pod).value, 0)
            attributes = Attributes("DELETE", pod, caller, dry_run)
            for plugin in self._resource_store.admission.plugins_for(attributes).validating:
                await plugin.validate(attributes, None, old)
        refusals: list[ApiError] = []
        costs: list[str] = []

        def propose(state: StagedState) -> list[Operation]:
            refusals.clear()
            costs.clear()
            staged = StagedObjects(state)
            for pod in pods:
                eviction = _PodEviction(staged, pod, order, several_budgets=self._several_budgets)
                refusals.extend(eviction.evict(now))
                costs.extend(eviction.costs)
            return [] if dry_run or options.dry_run else staged.operations()

        await self._resource_store.store.transact(propose)
        if refusals:  # raised after the commit, because what the budgets were charged is kept
            raise refusals[0]
        return "; ".join(costs) if self._several_budgets else ""

    def _component(self, caller: Caller) -> str:
        """The component as which the policy counts this user; empty if the eviction itself names it."""
        entry = self._resource_store.store.get(_POLICY)
        if entry is None:
            return ""
        policy = cast("DisruptionPolicy", kind_of(DisruptionPolicy).decode(entry.value))
        return component_quota.component_of(policy, caller.user.name)

    def must_evict(self, where: ObjectPath, options: DeleteOptions, caller: Caller) -> bool:
        """Whether a deletion must respect budgets: of a pod, by a person, not forced, and the policy requires it."""
        if (
            where.served.storage != "pods"
            or options.grace_period_seconds == 0
            or caller.user.name.startswith("system:")
        ):
            return False
        entry = self._resource_store.store.get(_POLICY)
        if entry is None:
            return False
        policy = cast("DisruptionPolicy", kind_of(DisruptionPolicy).decode(entry.value))
        return policy.spec.delete_mode == "EvictForHumans"

    async def delete(self, where: ObjectPath, options: DeleteOptions, caller: Caller) -> None:
        """Delete a pod as an eviction, which respects the budgets."""
        given: Raw = {"preconditions": {"uid": options.uid, "resourceVersion": options.version}}
        if options.grace_period_seconds is not None:
            given["gracePeriodSeconds"] = options.grace_period_seconds
        metadata = {"name": where.name, "annotations": {f"{_PREFIX}requested-by": "delete"}}
        try:
            await self.evict(where, {"metadata": metadata, "deleteOptions": given}, caller, dry_run=options.dry_run)
        except TooManyRequests as refusal:
            why = "; ".join(cause.message for cause in refusal.causes)
            hint = (
                "deleteMode EvictForHumans of the DisruptionPolicy respects budgets; gracePeriodSeconds 0 bypasses them"
            )
            raise TooManyRequests(
                f"Cannot delete pod: {why} ({hint})", causes=refusal.causes, retry_after=refusal.retry_after
            ) from refusal

    def _further_pods(self, where: ObjectPath, text: str, caller: Caller) -> list[ObjectPath]:
        """Further pods to evict in the same transaction, as `namespace/name,namespace/name`."""
        if not text:
            return []
        if MASTERS not in caller.user.groups and caller.user.name != "system:kube-scheduler":
            raise Forbidden("only the scheduler may evict several pods in one step")
        pairs = (pod.partition("/") for pod in text.split(",") if pod)
        return [replace(where, namespace=namespace, name=name) for namespace, _, name in pairs]


class DirectDeletionEvents:
    """Records an event when a pod is deleted directly, which bypasses the budgets: what they would have decided."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, where: ObjectPath, options: DeleteOptions, caller: Caller) -> Proposal | None:
        if where.served.storage != "pods" or caller.user.name.startswith("system:"):
            return None

        def propose(state: StagedState) -> list[Operation]:
            simulated, staged = StagedObjects(state), StagedObjects(state)
            now = self._clock.now()
            if simulated.get(where.key) is None:
                return []  # the deletion itself reports that it does not exist
            eviction = _PodEviction(
                simulated, where, EvictionOrder(options, DisruptionCause("", "Delete")), several_budgets=True
            )
            if not eviction.ignores_budgets:
                staged.add_new(*eviction.direct_delete_event(caller.user.name, now))
            return staged.operations()

        return propose


class _PodEviction:
    """The eviction of one pod, staged in the transaction."""

    def __init__(
        self, staged: StagedObjects, where: ObjectPath, order: EvictionOrder, *, several_budgets: bool
    ) -> None:
        self._staged, self._where, self._order, self._several_budgets = staged, where, order, several_budgets
        self.costs: list[str] = []
        """What each budget has left afterwards, as text."""
        stored = staged.get(where.key)
        if stored is None or stored.obj is None:
            raise api_errors.not_found(where.served.resource, where.served.group, where.name)
        self._raw: Raw = stored.obj
        pod = staged.get_typed(Pod, where.key)
        assert pod is not None
        self._pod = pod.but(metadata=pod.metadata.but(resource_version=staged.resource_version(where.key)))

    def evict(self, now: datetime) -> Iterator[ApiError]:
        """Check the budgets, then stage all changes; raises when the pod may not be evicted."""
        options = self._order.options
        if not self.ignores_budgets:
            refuse_while_frozen(self._staged.get_typed(DisruptionPolicy, _POLICY))
        guarding = {(type(guard.budget).__name__, guard.budget.name): guard for guard in self._guarding_budgets(now)}
        verdict = evaluate_eviction(
            self._pod,
            guarding.values(),
            Preconditions(options.uid, options.version),
            now,
            several_allowed=self._several_budgets,
        )
        if verdict.refusal is not None and (self._several_budgets or not verdict.charges):
            raise fault_from_refusal(verdict.refusal, self._where.name)
        if self._several_budgets and not self.ignores_budgets:
            self._charge_component(now)
        for debit in verdict.charges:
            budget = guarding[debit.kind, debit.budget].budget
            after = charge_pod_budget(budget, debit, self._where.name, self._order.disruption_cause, now)
            self._staged.put_status(_budget_key(budget), after)
            self.costs.append(_remaining_text(debit, now))
        if verdict.refusal is not None:
            yield fault_from_refusal(verdict.refusal, self._where.name)
            return
        self._delete_pod(now)
        if self._several_budgets and not self.ignores_budgets:
            self._add_events(now)
        self._update_avoid_list(now)

    def direct_delete_event(self, who: str, now: datetime) -> tuple[str, Raw]:
        """The event about a deletion that bypasses the budgets."""
        try:
            list(self.evict(now))
        except ApiError as fault:
            reason = "; ".join(cause.message for cause in fault.causes) or fault.message
            verdict = f"an eviction would have been refused: {reason}"
        else:
            verdict = f"an eviction would have been allowed ({'; '.join(self.costs) or 'no budget selects it'})"
        message = f"deleted directly by {who}; {verdict}"
        return build_event(self._subject, "DirectDelete", message, now, kind="Warning")

    @property
    def _subject(self) -> EventSubject:
        return subject_of(self._raw, "v1", "Pod")

    def _add_events(self, now: datetime) -> None:
        """Add events to the pod and to its owner, which outlives it: who evicted it, why, and the remaining budgets."""
        order = self._order
        by = f" by {order.disruption_cause.by}" if order.disruption_cause.by else ""
        why = f": {order.reason}" if order.reason else ""
        details = "; ".join((*self.costs, *order.hints))
        message = f"evicted{by}{why}" + (f" ({details})" if details else "")
        self._staged.add_new(*build_event(self._subject, "Evicted", message, now))
        if (owner := self._root_owner()) is not None:
            owner_message = f"pod {self._pod.name} on {self._pod.spec.node_name}: {message}"
            self._staged.add_new(*build_event(owner, POD_EVICTED_REASON, owner_message, now, related=self._subject))

    def _root_owner(self) -> EventSubject | None:
        """The owner that users know: a Deployment rather than its ReplicaSet."""
        owner = self._pod.controller
        if owner is None:
            return None
        root = self._owner_of_replicaset(owner)
        if root is not None:
            return EventSubject(root["apiVersion"], root["kind"], self._pod.namespace, root["name"], root["uid"])
        return EventSubject(owner.api_version, owner.kind, self._pod.namespace, owner.name, owner.uid)

    @property
    def ignores_budgets(self) -> bool:
        pod = self._pod
        return EvictedPod(
            pod.name, phase=pod.status.phase, terminating=pod.metadata.deletion_timestamp is not None
        ).is_exempt

    def _guarding_budgets(self, now: datetime) -> Iterator[GuardingBudget]:
        if self.ignores_budgets:
            return
        for type_, group, resource in _BUDGETS if self._several_budgets else _BUDGETS[:1]:
            prefix = namespace_below(resource_prefix(group, resource), self._pod.namespace)
            for _, budget in self._staged.list_typed(type_, prefix):
                if guards_pod(budget, self._pod, self._order.disruption_cause):
                    yield GuardingBudget(budget, self._count_healthy(budget, now) if self._several_budgets else None)

    def _count_healthy(self, budget: PodBudget, now: datetime) -> int:
        """How many of the budget's pods are healthy now, whatever its status says."""
        granted = {name for name, at in budget.status.disrupted_pods.items() if at + DELETION_DEADLINE > now}
        selector = budget.spec.selector or LabelSelector()
        pods = (
            _pod_health_decoder.decode(entry.value)
            for entry in self._staged.stored_entries(self._where.served.collection_prefix(self._pod.namespace))
        )
        return sum(
            pod.is_healthy and pod.metadata.name not in granted and selector.matches(pod.metadata.labels or {})
            for pod in pods
        )

    def _charge_component(self, now: datetime) -> None:
        disruption_cause, pod = self._order.disruption_cause, self._pod
        if not disruption_cause.by:
            return
        key = _POLICY if self._staged.get(_POLICY) is not None else _USAGE_WITHOUT_POLICY
        policy = self._staged.get_typed(DisruptionPolicy, key)
        if policy is None:
            policy = DisruptionPolicy()
            self._staged.stage_absent(key, {"metadata": {"name": "default"}})
        if (
            spent := component_quota.quota_refusal(policy, disruption_cause, pod.namespace, self._is_terminating, now)
        ) is not None:
            cause = Cause(COMPONENT, spent.message)
            raise TooManyRequests(
                "Cannot evict pod as its evictor has used up its quota.",
                causes=[cause],
                retry_after=spent.seconds or None,
            )
        after = component_quota.charge_quota(
            policy, disruption_cause, (pod.namespace, pod.name), self._is_terminating, now
        )
        if after != policy:
            self._staged.put_status(key, after)

    def _is_terminating(self, pod: str) -> bool:
        """Whether an evicted pod is still terminating."""
        namespace, _, name = pod.partition("/")
        staged = self._staged.get(self._where.served.key(namespace, name))
        return staged is not None and staged.obj is not None and bool(staged.obj["metadata"].get("deletionTimestamp"))

    def _delete_pod(self, now: datetime) -> None:
        plan = plan_deletion(self._where.served, self._raw, self._order.options, now)
        if plan.unchanged:
            return
        self._staged.put(
            self._where.key, None if plan.removed else _with_disruption_target(plan.obj, self._order, timestamp(now))
        )

    def _update_avoid_list(self, now: datetime) -> None:
        """Add the pod's owner to the avoid list of the node."""
        owner, node = self._pod.controller, self._pod.spec.node_name
        avoidance = self._order.avoidance
        key = object_key("", "nodes", node)
        if avoidance is None or owner is None or not node or (staged := self._staged.get(key)) is None:
            return
        entry = avoidance.but(
            pod_signature=avoid_list.PodSignature(pod_controller=owner),
            root_uid=self._root_uid(owner),
            message=self._order.reason,
        )
        obj: Raw = staged.obj or {}
        annotations = {**(obj["metadata"].get("annotations") or {})}
        before = avoid_list.entries_of(annotations)
        after = avoid_list.add_entry(before, entry, now)
        annotations[avoid_list.AVOID_PODS_ANNOTATION] = avoid_list.encode_entries(after) or ""
        self._staged.put(key, {**obj, "metadata": {**obj["metadata"], "annotations": annotations}})
        for lost in avoid_list.entries_dropped_for_space(before, after, now):
            dropped = lost.pod_signature.pod_controller
            message = f"{avoid_list.MAX_ENTRIES} owners avoid this node; {dropped.kind} {dropped.name} was removed from the list"
            self._staged.add_new(
                *build_event(subject_of(obj, "v1", "Node"), "AvoidListFull", message, now, kind="Warning")
            )

    def _root_uid(self, owner: OwnerReference) -> str:
        root = self._owner_of_replicaset(owner)
        return str(root["uid"]) if root is not None else ""

    def _owner_of_replicaset(self, owner: OwnerReference) -> Raw | None:
        """The owner of a ReplicaSet."""
        staged = self._staged.get(object_key("apps", "replicasets", self._pod.namespace, owner.name))
        owners: Sequence[Raw] = (
            ((staged.obj or {})["metadata"].get("ownerReferences") or ()) if staged is not None else ()
        )
        return next((above for above in owners if above.get("controller")), None)


def _delete_options(where: ObjectPath, given: Any) -> DeleteOptions:
    if isinstance(given, dict) and given.get(_UNSAFE_OPTION):
        message = "Invalid value: true: must not be set, because an eviction always reads the pod"
        raise api_errors.invalid(
            "DeleteOptions", "", where.name, [Cause("FieldValueInvalid", message, f"deleteOptions.{_UNSAFE_OPTION}")]
        )
    return parse_delete_options(given if isinstance(given, dict) else None, {})


def _budget_key(budget: PodBudget) -> str:
    group, resource = next((group, resource) for type_, group, resource in _BUDGETS if isinstance(budget, type_))
    return object_key(group, resource, budget.namespace, budget.name)


def annotation_causes(annotations: Raw) -> Iterator[Cause]:
    """Refuse annotations that cannot be parsed, rather than ignore them."""
    checks: tuple[tuple[str, Callable[[str], bool], str], ...] = (
        ("prefer-avoid", lambda text: text in ("true", "false"), 'must be "true" or "false"'),
        ("prefer-avoid-ttl", is_duration, "must be a duration such as 30s, 10m or 1h"),
        (
            "prefer-avoid-until",
            lambda text: text.startswith(_SCHEDULED_PREFIX) and len(text) > len(_SCHEDULED_PREFIX),
            f"must be {_SCHEDULED_PREFIX}UID, with the uid of the pod to be scheduled",
        ),
    )
    for name, is_valid, why in checks:
        text = annotations.get(f"{_PREFIX}{name}")
        if text is not None and not is_valid(str(text)):
            yield invalid(f"metadata.annotations[{_PREFIX}{name}]", text, why)
    reason = annotations.get(f"{_PREFIX}reason")
    if reason is not None and reason not in DISRUPTIONS:
        yield not_supported(f"metadata.annotations[{_PREFIX}reason]", reason, DISRUPTIONS)


def disruption_cause_from(annotations: Raw, known: str) -> DisruptionCause:
    by = known or str(annotations.get(f"{_PREFIX}requested-by") or annotations.get("requested-by") or "")
    return DisruptionCause(by, str(annotations.get(f"{_PREFIX}reason") or DEFAULT_REASONS.get(by, "")))


def _hints_from(annotations: Raw) -> Iterator[str]:
    if plan := annotations.get(f"{_PREFIX}move-plan"):
        yield f"plan {plan}"
    if node := annotations.get(f"{_PREFIX}expected-node"):
        yield f"its replacement is expected on {node}"


def _remaining_text(debit: BudgetCharge, now: datetime) -> str:
    allowed = debit.disruptions_allowed
    remaining = [] if allowed >= UNLIMITED - 1 else [f"{allowed} more disruption{'' if allowed == 1 else 's'}"]
    remaining += [f"{debit.rate.remaining(now)} more in {format_timedelta(debit.rate.period)}"] if debit.rate else []
    return f"{debit.kind} {debit.budget} allows {' and '.join(remaining) or 'any number'} afterwards"


def _avoidance_from(annotations: Raw, now: datetime) -> avoid_list.AvoidEntry | None:
    if annotations.get(f"{_PREFIX}prefer-avoid") != "true":
        return None
    until = str(annotations.get(f"{_PREFIX}prefer-avoid-until") or "").removeprefix(_SCHEDULED_PREFIX)
    requested = parse_duration(str(annotations.get(f"{_PREFIX}prefer-avoid-ttl") or ""))
    life = (
        min(requested or avoid_list.MAX_AVOID_TIME_UNTIL_SCHEDULED, avoid_list.MAX_AVOID_TIME_UNTIL_SCHEDULED)
        if until
        else min(requested or avoid_list.DEFAULT_AVOID_TIME, avoid_list.MAX_AVOID_TIME)
    )
    return avoid_list.AvoidEntry(
        eviction_time=now.replace(microsecond=0),
        reason=str(annotations.get("reason") or "Evicted"),
        expiry=now + timedelta(seconds=life.total_seconds()),
        until_pod_scheduled=until,
        seconds=int(life.total_seconds()),
    )


def refuse_while_frozen(policy: DisruptionPolicy | None) -> None:
    """Refuse an eviction while all moves are frozen."""
    if (frozen := freeze_refusal(policy)) is not None:
        raise TooManyRequests("Cannot evict pod.", causes=[Cause(FREEZE, frozen.message)])


def fault_from_refusal(refusal: EvictionRefusal, name: str) -> ApiError:
    causes = [Cause(BUDGET, text) for text in refusal.causes]
    if refusal.code == 429:
        return TooManyRequests(refusal.message, causes=causes, retry_after=refusal.retry_after_seconds or None)
    if refusal.code == 403:
        return Forbidden(refusal.message, causes=causes)
    if refusal.code == 409:
        return Conflict(refusal.message, kind="Pod", name=name)
    return api_errors.unclassified_error(refusal.message)


def _with_disruption_target(pod: Raw, order: EvictionOrder, now: str) -> Raw:
    """The pod with the DisruptionTarget condition."""
    status: Raw = pod.get("status") or {}
    preempted = order.disruption_cause.by == "preemption"
    message = (
        "default-scheduler: preempting to accommodate a higher priority pod" if preempted else "Eviction API: evicting"
    )
    message += f" ({order.disruption_cause.by})" if order.disruption_cause.by and not preempted else ""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "PreemptionByScheduler" if preempted else "EvictionByEvictionAPI",
        "message": message,
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionTarget"]
    return {**pod, "status": {**status, "conditions": [*others, condition]}}
