"""Protections that apply to every move, whatever proposes it and whatever it gains."""

from datetime import timedelta

from trimtab.decide.pods.pod_traits import UNDER_WAY
from trimtab.decide.pods.preemption.preempt import SYSTEM_CRITICAL
from trimtab.decide.rescheduling.history import SETTLES_AFTER_SCALING
from trimtab.decide.rescheduling.objectives import Candidate
from trimtab.decide.rescheduling.snapshot import Picture


def unwilling(candidate: Candidate, picture: Picture) -> str | None:
    """Why the pod itself or its owner's history forbids the move; None when nothing does."""
    if candidate.free:
        return None
    return _protected(candidate, picture) or _resting(candidate, picture)


def _protected(candidate: Candidate, picture: Picture) -> str | None:
    pod, traits, settings = candidate.pod, candidate.pod.traits, picture.settings
    if traits.immovable or traits.daemon:
        return "it is bound to its node"
    if not traits.controller and not traits.invited:
        return "nothing would replace it"
    if pod.priority >= SYSTEM_CRITICAL:
        return "it is critical to the system"
    if traits.local_storage and not traits.invited:
        return "it would lose its local data"
    if traits.reluctant:
        return "it asks not to be moved"
    if pod.namespace in settings.exclude.namespaces:
        return f"the namespace {pod.namespace} is excluded"
    if pod.terminating:
        return "it is already terminating"
    if UNDER_WAY in pod.pod.metadata.annotations:
        return "another component is already moving it"
    node_info = picture.fleet.get(pod.pod.spec.node_name)
    if node_info is not None and node_info.node.spec.unschedulable:
        return "its node is cordoned and may be draining"
    started = pod.pod.status.start_time
    if not candidate.urgent and (started is None or picture.now - started < settings.youngest):
        return f"it is younger than {settings.min_pod_age}"
    if not candidate.urgent and pod.pod.spec.scheduler_name not in settings.schedulers:
        return f"the rules of the scheduler {pod.pod.spec.scheduler_name} are unknown"
    return None


def _resting(candidate: Candidate, picture: Picture) -> str | None:
    """Why the owner is not moved for a while: backoff, rollout or scaling."""
    owner, history, now = picture.owner(candidate.pod.pod), picture.history, picture.now
    if not owner.uid:
        return None
    if history.frozen(owner.uid):
        return f"{owner.name} had three wasted moves in a row"
    until = history.cooling_until(owner.uid)
    if until is not None and now < until:
        return f"{owner.name} had a wasted move and is not moved until {until:%H:%M:%S}"
    if owner.rolling:
        return f"{owner.name} is being rolled out"
    scaled = history.scaled_since(owner.uid)
    if scaled is not None and now - scaled < SETTLES_AFTER_SCALING:
        return f"{owner.name} was scaled less than {_minutes(SETTLES_AFTER_SCALING)} ago"
    return None


def _minutes(span: timedelta) -> str:
    return f"{int(span.total_seconds() // 60)} minutes"
