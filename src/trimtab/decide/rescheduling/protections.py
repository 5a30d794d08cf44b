"""Protections that apply to every move, whatever proposes it and whatever it gains."""

from datetime import timedelta

from trimtab.decide.pods.pod_traits import EVICTION_IN_PROGRESS_ANNOTATION
from trimtab.decide.pods.preemption.preempt import SYSTEM_CRITICAL
from trimtab.decide.rescheduling.history import SCALING_COOLDOWN
from trimtab.decide.rescheduling.objectives import MoveCandidate
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot


def protection_reason(candidate: MoveCandidate, snapshot: ReschedulingSnapshot) -> str | None:
    """Why the pod itself or its owner's history forbids the move; None when nothing does."""
    if candidate.free:
        return None
    return _pod_protection(candidate, snapshot) or _owner_cooldown(candidate, snapshot)


def _pod_protection(candidate: MoveCandidate, snapshot: ReschedulingSnapshot) -> str | None:
    pod, traits, settings = candidate.pod, candidate.pod.traits, snapshot.settings
    if traits.is_static_pod or traits.is_daemon:
        return "it is bound to its node"
    if not traits.controller_uid and not traits.is_annotated_for_eviction:
        return "no controller would replace it"
    if pod.priority >= SYSTEM_CRITICAL:
        return "it is critical to the system"
    if traits.has_local_storage and not traits.is_annotated_for_eviction:
        return "it would lose its local data"
    if traits.prefers_no_eviction:
        return "its annotation excludes it from eviction"
    if pod.namespace in settings.exclude.namespaces:
        return f"the namespace {pod.namespace} is excluded"
    if pod.is_terminating:
        return "it is already terminating"
    if EVICTION_IN_PROGRESS_ANNOTATION in pod.pod.metadata.annotations:
        return "another component is already moving it"
    node_info = snapshot.fleet.get(pod.pod.spec.node_name)
    if node_info is not None and node_info.node.spec.unschedulable:
        return "its node is cordoned and may be draining"
    started = pod.pod.status.start_time
    if not candidate.urgent and (started is None or snapshot.now - started < settings.min_age):
        return f"it is younger than {settings.min_pod_age}"
    if not candidate.urgent and pod.pod.spec.scheduler_name not in settings.schedulers:
        return f"the rules of the scheduler {pod.pod.spec.scheduler_name} are unknown"
    return None


def _owner_cooldown(candidate: MoveCandidate, snapshot: ReschedulingSnapshot) -> str | None:
    """Why the owner is not moved for a while: backoff, rollout or scaling."""
    owner, history, now = snapshot.owners.of(candidate.pod.pod), snapshot.history, snapshot.now
    if not owner.uid:
        return None
    if history.is_frozen(owner.uid):
        return f"{owner.name} had three wasted moves in a row"
    until = history.backoff_until(owner.uid)
    if until is not None and now < until:
        return f"{owner.name} had a wasted move and is not moved until {until:%H:%M:%S}"
    if owner.is_rolling_out:
        return f"{owner.name} is being rolled out"
    scaled = history.last_scaled_at(owner.uid)
    if scaled is not None and now - scaled < SCALING_COOLDOWN:
        return f"{owner.name} was scaled less than {_format_minutes(SCALING_COOLDOWN)} ago"
    return None


def _format_minutes(span: timedelta) -> str:
    return f"{int(span.total_seconds() // 60)} minutes"
