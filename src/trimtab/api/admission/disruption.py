"""What is refused in disruption budgets and the settings around them."""

import re
from collections.abc import Callable, Iterator

from trimtab.api.admission.raw import at, mapping, objects, put
from trimtab.api.cron import check_timetable
from trimtab.api.duration import is_duration
from trimtab.api.field_errors import invalid, required
from trimtab.api.kinds.native.rules.common import selector
from trimtab.api.value import Raw
from trimtab.errors import Cause

_PERCENT = re.compile(r"[0-9]{1,18}%\Z")
_PACE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?\Z")


def check_share(value: object, field: str) -> Iterator[Cause]:
    if isinstance(value, int) and value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")
    if isinstance(value, str):
        if not _PERCENT.match(value):
            yield invalid(field, value, "a valid percent string must be a numeric string followed by an ending '%'")
        elif int(value[:-1]) > 100:
            yield invalid(field, value, "must not be greater than 100%")


def _check_rate(rate: object, field: str) -> Iterator[Cause]:
    period = mapping(rate).get("period")
    if isinstance(period, str) and not is_duration(period):
        yield invalid(field + ".period", period, "must be a duration such as 30s, 10m or 1h, and longer than none")


def _check_window(window: Raw, field: str) -> Iterator[Cause]:
    yield from check_timetable(str(window.get("schedule", "")), str(window.get("timeZone") or ""), field)


def fill_budget(budget: Raw) -> Raw:
    """On the API of a fleet a budget is over workloads unless it says otherwise."""
    return budget if at(budget, "spec", "target") else put(budget, ("spec", "target"), "Workloads")


def check_budget(budget: Raw, old: Raw | None) -> list[Cause]:
    spec = mapping(budget.get("spec"))
    causes: list[Cause] = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        causes.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        causes.extend(check_share(spec.get(name), f"spec.{name}"))
    causes.extend(_check_rate(spec.get("rate"), "spec.rate"))
    for i, window in objects(spec.get("windows")):
        causes.extend(_check_window(window, f"spec.windows[{i}]"))
    causes.extend(selector(mapping(spec.get("selector")), "spec.selector"))
    if spec.get("unhealthyPodEvictionPolicy") and spec.get("target") == "Workloads":
        why = "only means something for a budget over Pods"
        causes.append(invalid("spec.unhealthyPodEvictionPolicy", spec["unhealthyPodEvictionPolicy"], why))
    return causes


def check_singleton(obj: Raw, old: Raw | None) -> list[Cause]:
    name = at(obj, "metadata", "name") or ""
    return [] if name == "default" else [invalid("metadata.name", name, "there is only one, and it is called default")]


def _check_selector(value: object, field: str) -> Iterator[Cause]:
    yield from selector(mapping(value), field)


_PARTS: dict[str, dict[str, Callable[[object, str], Iterator[Cause]]]] = {
    "defaultBudgets": {"maxUnavailable": check_share, "rate": _check_rate},
    "floors": {"namespaceSelector": _check_selector, "minMaxUnavailable": check_share, "minRate": _check_rate},
    "componentQuotas": {"rate": _check_rate},
    "priorityRules": {"namespaceSelector": _check_selector, "podSelector": _check_selector},
}


def check_policy(policy: Raw, old: Raw | None) -> list[Cause]:
    causes = check_singleton(policy, old)
    for name in ("slowAbove", "stopAbove"):
        causes.extend(check_share(at(policy, "spec", "storm", name), f"spec.storm.{name}"))
    for field, checks in _PARTS.items():
        for i, one in objects(at(policy, "spec", field)):
            for name, check in checks.items():
                causes.extend(check(one.get(name), f"spec.{field}[{i}].{name}"))
    pace = at(policy, "spec", "evictionRate", "perSecond")
    if pace is not None and not _PACE.match(str(pace)):
        causes.append(invalid("spec.evictionRate.perSecond", pace, "must be a number such as 10 or 0.1"))
    return causes


def check_order(order: Raw, old: Raw | None) -> list[Cause]:
    names = at(order, "spec", "names")
    return [*check_singleton(order, old), *([] if names else [required("spec.names")])]
