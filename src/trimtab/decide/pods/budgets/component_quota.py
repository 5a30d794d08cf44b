"""Quotas that limit how much one component may disrupt, whatever budgets allow."""

from collections.abc import Callable, Iterator
from datetime import datetime
from math import ceil
from typing import NamedTuple

from trimtab.api.duration import format_timedelta, parse_duration
from trimtab.api.kinds.disruption import (
    ComponentQuota,
    ComponentQuotaUse,
    DisruptionPolicy,
    DisruptionRate,
    InFlightDisruption,
    RecentDisruption,
)
from trimtab.api.wording import plural, verb
from trimtab.decide.gate import disruptions_within
from trimtab.decide.pods.budgets import budget
from trimtab.decide.pods.budgets.pod_budgets import DisruptionCause

DEFAULT_QUOTAS = (
    ComponentQuota(component="rescheduler", rate=DisruptionRate(disruptions=20, period="10m"), max_in_flight=10),
    ComponentQuota(component="preemption", rate=DisruptionRate(disruptions=100, period="1m")),
    ComponentQuota(component="drain", max_in_flight=50),
)
"""The quotas of components that the policy does not name."""


class QuotaRefusal(NamedTuple):
    """Why the component must wait, and how long if only time has to pass."""

    message: str
    seconds: int = 0


def component_of(policy: DisruptionPolicy, user: str) -> str:
    """Return the component that this user counts as, whatever the request claims; empty when the policy names none."""
    return next((one.component for one in policy.spec.component_quotas if user in one.users), "")


def quotas_of(policy: DisruptionPolicy, component: str) -> list[ComponentQuota]:
    named = [quota for quota in policy.spec.component_quotas if quota.component == component]
    return named or [quota for quota in DEFAULT_QUOTAS if quota.component == component]


def quota_refusal(
    policy: DisruptionPolicy, cause: DisruptionCause, namespace: str, is_ongoing: Callable[[str], bool], now: datetime
) -> QuotaRefusal | None:
    """Return why the quota is used up, if it is; `is_ongoing` says whether a disrupted pod is still terminating."""
    found = [
        refusal
        for quota in quotas_of(policy, cause.by)
        for refusal in _refusals(quota, _use_of(policy, quota, namespace), is_ongoing, now)
    ]
    return max(found, key=lambda one: one.seconds, default=None)


def _refusals(
    quota: ComponentQuota, use: ComponentQuotaUse, is_ongoing: Callable[[str], bool], now: datetime
) -> Iterator[QuotaRefusal]:
    subject = f"The quota of the component {quota.component}"
    ongoing = sum(is_ongoing(entry.object) for entry in use.in_flight)
    if quota.max_in_flight is not None and ongoing >= quota.max_in_flight:
        yield QuotaRefusal(
            f"{subject} allows {plural(quota.max_in_flight, 'disruption')} at once, and {ongoing} {verb(ongoing, 'is', 'are')} in progress"
        )
    if quota.rate is not None:
        period = parse_duration(quota.rate.period)
        times = tuple(entry.at for entry in use.recent if entry.at is not None)
        rate = budget.RateWindow(quota.rate.disruptions, period, times)
        if rate.remaining(now) == 0:
            wait = ceil((rate.next_allowed_at(now) - now).total_seconds())
            yield QuotaRefusal(
                f"{subject}, {quota.rate.disruptions} in {format_timedelta(period)}, is used up, the next is allowed in {wait} s",
                wait,
            )


def _quota_namespace(quota: ComponentQuota, namespace: str) -> str:
    return namespace if quota.scope == "Namespace" else ""


def _use_of(policy: DisruptionPolicy, quota: ComponentQuota, namespace: str) -> ComponentQuotaUse:
    quota_namespace = _quota_namespace(quota, namespace)
    uses = policy.status.components
    empty = ComponentQuotaUse(component=quota.component, namespace=quota_namespace)
    return next((use for use in uses if (use.component, use.namespace) == (quota.component, quota_namespace)), empty)


def forget_refused(policy: DisruptionPolicy, is_untouched: Callable[[RecentDisruption], bool]) -> DisruptionPolicy:
    """Return the policy without the disruptions of a rate that were admitted and did not happen after all."""
    uses = tuple(
        use.but(recent=tuple(one for one in use.recent if not is_untouched(one))) for use in policy.status.components
    )
    return policy.but(status=policy.status.but(components=uses))


def charge_quota(
    policy: DisruptionPolicy,
    cause: DisruptionCause,
    pod: tuple[str, str],
    is_ongoing: Callable[[str], bool],
    now: datetime,
) -> DisruptionPolicy:
    """Return the policy with one more disruption by the component; unchanged when it has no quota."""
    namespace, _ = pod
    name = "/".join(pod)
    for quota in quotas_of(policy, cause.by):
        use = _use_of(policy, quota, namespace)
        recent = (
            disruptions_within(use.recent, parse_duration(quota.rate.period), now) if quota.rate is not None else ()
        )
        disruption = RecentDisruption(object=name, at=now, by=cause.by, reason=cause.reason)
        in_flight = InFlightDisruption(object=name, replicas=1, since=now, by=cause.by, reason=cause.reason)
        ongoing = tuple(one for one in use.in_flight if is_ongoing(one.object))
        after = use.but(
            recent=(*recent, disruption) if quota.rate is not None else (),
            in_flight=(*ongoing, in_flight) if quota.max_in_flight is not None else (),
        )
        others = tuple(
            one for one in policy.status.components if (one.component, one.namespace) != (use.component, use.namespace)
        )
        policy = policy.but(status=policy.status.but(components=(*others, after)))
    return policy
