"""Pod failure policy and success policy of a Job, as pure functions of its spec and its pods."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.simulate.workloads.job_indexes import parse_indexes


class FailureMatch(NamedTuple):
    """The rule of a pod failure policy that a failed pod matches."""

    action: str
    """FailJob, FailIndex, Ignore or Count."""
    message: str


NO_MATCH = FailureMatch("Count", "")


def match_failure_policy(spec: Raw, pod: Pod) -> FailureMatch:
    """The first rule that the failed pod matches; a failure without a matching rule counts."""
    policy = spec.get("podFailurePolicy") or {}
    for number, rule in enumerate(policy.get("rules") or ()):
        action = rule["action"]
        subject = _match_exit_codes(rule["onExitCodes"], pod) if rule.get("onExitCodes") else ""
        subject = subject or _match_conditions(rule.get("onPodConditions") or (), pod)
        if subject:
            return FailureMatch(action, f"{subject} matching {action} rule at index {number}")
    return NO_MATCH


def _match_exit_codes(rule: Raw, pod: Pod) -> str:
    wanted = rule.get("containerName")
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0 or wanted not in (None, status.name):
            continue
        if (ended.exit_code in rule["values"]) == (rule["operator"] == "In"):
            pod_name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            return f"Container {status.name} for pod {pod_name} failed with exit code {ended.exit_code}"
    return ""


def _match_conditions(rules: Iterable[Raw], pod: Pod) -> str:
    for rule in rules:
        for condition in pod.status.conditions:
            if condition.type == rule["type"] and condition.status == rule.get("status", "True"):
                return f"Pod {pod.metadata.namespace}/{pod.metadata.name} has condition {condition.type}"
    return ""


def match_success_policy(spec: Raw, succeeded: set[int]) -> str:
    """The message of the first success rule that holds; empty when none does."""
    rules: Sequence[Raw] = (spec.get("successPolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules):
        counted = succeeded
        needed = rule.get("succeededCount")
        if rule.get("succeededIndexes"):
            indexes = parse_indexes(rule["succeededIndexes"])
            counted = succeeded & indexes
            needed = len(indexes) if needed is None else needed
        if needed is not None and len(counted) >= needed:
            return f"Matched rules at index {number}"
    return ""
