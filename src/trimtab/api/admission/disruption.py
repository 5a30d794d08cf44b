"""Defaulting and validation of DisruptionBudget, DisruptionPolicy and PriorityOrder."""

import re
from collections.abc import Callable, Iterator

from trimtab.api.cron import check_schedule
from trimtab.api.duration import is_duration
from trimtab.api.field_errors import invalid, required
from trimtab.api.kinds.native.rules.common import check_selector
from trimtab.api.paths import indexed_objects, object_at, value_at, with_value
from trimtab.api.value import Raw
from trimtab.errors import Cause

_PERCENT = re.compile(r"[0-9]{1,18}%\Z")
_EVICTIONS_PER_SECOND = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?\Z")


def check_count_or_percent(value: object, field: str) -> Iterator[Cause]:
    if isinstance(value, int) and value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")
    if isinstance(value, str):
        if not _PERCENT.match(value):
            yield invalid(field, value, "a valid percent string must be a numeric string followed by an ending '%'")
        elif int(value[:-1]) > 100:
            yield invalid(field, value, "must not be greater than 100%")


def _check_rate(rate: object, field: str) -> Iterator[Cause]:
    period = object_at(rate).get("period")
    if isinstance(period, str) and not is_duration(period):
        yield invalid(field + ".period", period, "must be a duration greater than zero, such as 30s, 10m or 1h")


def _check_window(window: Raw, field: str) -> Iterator[Cause]:
    yield from check_schedule(str(window.get("schedule", "")), str(window.get("timeZone") or ""), field)


def fill_budget(budget: Raw) -> Raw:
    """On a control plane, the default target of a budget is Workloads."""
    return budget if value_at(budget, "spec", "target") else with_value(budget, "Workloads", "spec", "target")


def check_budget(budget: Raw, old: Raw | None) -> list[Cause]:
    spec = object_at(budget, "spec")
    causes: list[Cause] = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        causes.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        causes.extend(check_count_or_percent(spec.get(name), f"spec.{name}"))
    causes.extend(_check_rate(spec.get("rate"), "spec.rate"))
    for i, window in indexed_objects(spec.get("windows")):
        causes.extend(_check_window(window, f"spec.windows[{i}]"))
    causes.extend(check_selector(object_at(spec, "selector"), "spec.selector"))
    if spec.get("unhealthyPodEvictionPolicy") and spec.get("target") == "Workloads":
        detail = "is only supported for budgets with target Pods"
        causes.append(invalid("spec.unhealthyPodEvictionPolicy", spec["unhealthyPodEvictionPolicy"], detail))
    if spec.get("approval") and spec.get("target") == "Pods":
        causes.append(invalid("spec.approval", spec["approval"], "is only supported for budgets with target Workloads"))
    return causes


def check_singleton(obj: Raw, old: Raw | None) -> list[Cause]:
    name = value_at(obj, "metadata", "name") or ""
    return (
        [] if name == "default" else [invalid("metadata.name", name, "must be default, the only object of this kind")]
    )


def _check_selector(value: object, field: str) -> Iterator[Cause]:
    yield from check_selector(object_at(value), field)


_POLICY_CHECKS: dict[str, dict[str, Callable[[object, str], Iterator[Cause]]]] = {
    "defaultBudgets": {"maxUnavailable": check_count_or_percent, "rate": _check_rate},
    "floors": {
        "namespaceSelector": _check_selector,
        "minMaxUnavailable": check_count_or_percent,
        "minRate": _check_rate,
    },
    "componentQuotas": {"rate": _check_rate},
    "priorityRules": {"namespaceSelector": _check_selector, "podSelector": _check_selector},
}


def check_disruption_policy(policy: Raw, old: Raw | None) -> list[Cause]:
    causes = check_singleton(policy, old)
    for name in ("slowAbove", "stopAbove"):
        causes.extend(check_count_or_percent(value_at(policy, "spec", "storm", name), f"spec.storm.{name}"))
    for field, checks in _POLICY_CHECKS.items():
        for i, one in indexed_objects(value_at(policy, "spec", field)):
            for name, check in checks.items():
                causes.extend(check(one.get(name), f"spec.{field}[{i}].{name}"))
    pace = value_at(policy, "spec", "evictionRate", "perSecond")
    if pace is not None and not _EVICTIONS_PER_SECOND.match(str(pace)):
        causes.append(invalid("spec.evictionRate.perSecond", pace, "must be a number such as 10 or 0.1"))
    return causes


def check_priority_order(order: Raw, old: Raw | None) -> list[Cause]:
    names = value_at(order, "spec", "names")
    return [*check_singleton(order, old), *([] if names else [required("spec.names")])]
