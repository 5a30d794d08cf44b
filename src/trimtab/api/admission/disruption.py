"""What is refused in disruption budgets and the settings around them."""

import re
from collections.abc import Iterator

from trimtab.api.admission.raw import at, mapping, objects
from trimtab.api.complaints import invalid, required
from trimtab.api.value import Raw
from trimtab.errors import Cause

DURATION = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"
_PERCENT = re.compile(r"[0-9]{1,18}%\Z")
_DURATION = re.compile(DURATION.rstrip("$") + r"\Z")
_CRON_PARTS = 5


def _check_share(value: object, field: str) -> Iterator[Cause]:
    if isinstance(value, int) and value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")
    if isinstance(value, str):
        if not _PERCENT.match(value):
            yield invalid(field, value, "a valid percent string must be a numeric string followed by an ending '%'")
        elif int(value[:-1]) > 100:
            yield invalid(field, value, "must not be greater than 100%")


def _check_rate(rate: object, field: str) -> Iterator[Cause]:
    period = mapping(rate).get("period")
    if isinstance(period, str) and not _DURATION.match(period):
        yield invalid(field + ".period", period, "must be a duration such as 30s, 10m or 1h")


def check_budget(budget: Raw, old: Raw | None) -> list[Cause]:
    spec = mapping(budget.get("spec"))
    causes: list[Cause] = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        causes.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        causes.extend(_check_share(spec.get(name), f"spec.{name}"))
    causes.extend(_check_rate(spec.get("rate"), "spec.rate"))
    for i, window in objects(spec.get("windows")):
        schedule = str(window.get("schedule", ""))
        if len(schedule.split()) != _CRON_PARTS:
            causes.append(invalid(f"spec.windows[{i}].schedule", schedule, "must be a cron schedule of five parts"))
    if spec.get("unhealthyPodEvictionPolicy") and spec.get("target") == "Workloads":
        why = "only means something for a budget over Pods"
        causes.append(invalid("spec.unhealthyPodEvictionPolicy", spec["unhealthyPodEvictionPolicy"], why))
    return causes


def check_singleton(obj: Raw, old: Raw | None) -> list[Cause]:
    name = at(obj, "metadata", "name") or ""
    return [] if name == "default" else [invalid("metadata.name", name, "there is only one, and it is called default")]


def check_order(order: Raw, old: Raw | None) -> list[Cause]:
    names = at(order, "spec", "names")
    return [*check_singleton(order, old), *([] if names else [required("spec.names")])]
