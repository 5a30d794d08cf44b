"""Validation of CronFederatedHPAs, as in Karmada's webhook."""

import re
from collections.abc import Iterator
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from trimtab.api.field_errors import duplicate, invalid
from trimtab.api.paths import indexed_objects, value_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_CRON_WORD = re.compile(r"[0-9A-Za-z*/,\-?]+\Z")
_CRON_NAMES = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


def check_cron(cron: Raw, old: Raw | None) -> list[Cause]:
    scales_hpa = value_at(cron, "spec", "scaleTargetRef", "kind") == "FederatedHPA"
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, rule in indexed_objects(value_at(cron, "spec", "rules")):
        field, name = f"spec.rules[{i}]", str(rule.get("name", ""))
        if name in seen:
            causes.append(duplicate(f"{field}.name", name))
        seen.add(name)
        causes.extend(_check_time(rule, field))
        causes.extend(_check_bounds(rule, field) if scales_hpa else _check_replicas(rule, field))
    return causes


def is_cron(schedule: str) -> bool:
    words = schedule.split()
    return schedule in _CRON_NAMES or (len(words) == 5 and all(_CRON_WORD.match(word) for word in words))


def _check_time(rule: Raw, field: str) -> Iterator[Cause]:
    schedule, zone = str(rule.get("schedule", "")), rule.get("timeZone")
    if not is_cron(schedule):
        yield invalid(f"{field}.schedule", schedule, "invalid cron schedule format")
    if isinstance(zone, str):
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, IsADirectoryError):
            yield invalid(f"{field}.timeZone", zone, f"unknown time zone {zone}")


def _check_bounds(rule: Raw, field: str) -> Iterator[Cause]:
    least, most = rule.get("targetMinReplicas"), rule.get("targetMaxReplicas")
    if least is None and most is None:
        yield invalid(
            field,
            rule,
            "targetMinReplicas and targetMaxReplicas cannot be nil at the same time if you want to scale FederatedHPA",
        )
    for name, value in (("targetMinReplicas", least), ("targetMaxReplicas", most)):
        if isinstance(value, int) and value <= 0:
            yield invalid(f"{field}.{name}", value, f"{name} should be larger than 0")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        yield invalid(
            f"{field}.targetMinReplicas", least, "targetMaxReplicas should be larger than or equal to targetMinReplicas"
        )


def _check_replicas(rule: Raw, field: str) -> Iterator[Cause]:
    wanted = rule.get("targetReplicas")
    if wanted is None:
        yield invalid(f"{field}.targetReplicas", None, "targetReplicas cannot be nil if you want to scale the workload")
    elif isinstance(wanted, int) and wanted < 0:
        yield invalid(f"{field}.targetReplicas", wanted, "targetReplicas should be larger than or equal to 0")
