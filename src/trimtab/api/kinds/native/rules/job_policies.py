"""What kube-apiserver rejects in the policies of Jobs: per-index back-off, pod failures, success, replacement, manager."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from trimtab.api.field_errors import invalid, invalid_without_value, not_supported, required, too_many
from trimtab.api.kinds.native.rules import common
from trimtab.api.names import path_segment_faults, subdomain_faults
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_INDEXED = "requires indexed completion mode"
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MAX_RULES = 20
_MAX_EXIT_CODES = 255


def check_job_policies(spec: Raw, field: str) -> Iterator[Cause]:
    is_indexed = spec.get("completionMode") == "Indexed"
    if (per_index := spec.get("backoffLimitPerIndex")) is not None and not is_indexed:
        yield invalid(f"{field}.backoffLimitPerIndex", per_index, _INDEXED)
    yield from common.check_not_negative(per_index, f"{field}.backoffLimitPerIndex")
    yield from _check_failed_indexes(spec, field, is_indexed=is_indexed)
    if spec.get("podFailurePolicy") is not None:
        yield from _check_failure_policy(spec, f"{field}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        where = f"{field}.successPolicy"
        if not is_indexed:
            yield invalid(where, spec["successPolicy"], _INDEXED)
        else:
            yield from _check_success_policy(spec["successPolicy"], spec.get("completions") or 0, where)
    replacement = spec.get("podReplacementPolicy")
    choices = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if replacement is not None and replacement not in choices:
        yield not_supported(f"{field}.podReplacementPolicy", replacement, choices)
    if (manager := spec.get("managedBy")) is not None:
        yield from _check_manager(manager, f"{field}.managedBy")


def _check_failed_indexes(spec: Raw, field: str, *, is_indexed: bool) -> Iterator[Cause]:
    failed = spec.get("maxFailedIndexes")
    if failed is None:
        return
    where = f"{field}.maxFailedIndexes"
    yield from common.check_not_negative(failed, where)
    if not is_indexed:
        yield invalid(where, failed, _INDEXED)
    elif spec.get("backoffLimitPerIndex") is None:
        yield required(f"{field}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    elif failed > (spec.get("completions") or 0):
        yield invalid(where, failed, "must be less than or equal to completions")


def _check_manager(manager: str, field: str) -> Iterator[Cause]:
    domain, separator, path = manager.partition("/")
    if not domain or not separator or not path:
        yield invalid(field, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    for fault in (*subdomain_faults(domain), *path_segment_faults(path)):
        yield invalid(field, manager, fault)


def _check_failure_policy(spec: Raw, field: str) -> Iterator[Cause]:
    rules: Sequence[Raw] = spec["podFailurePolicy"].get("rules") or []
    pod = object_at(spec, "template", "spec")
    if pod.get("restartPolicy") != "Never":
        yield invalid(
            f"{field.rpartition('.')[0]}.template.spec.restartPolicy",
            pod.get("restartPolicy", ""),
            'only "Never" is supported when podFailurePolicy is specified',
        )
    if len(rules) > _MAX_RULES:
        yield too_many(f"{field}.rules", len(rules), _MAX_RULES)
    names = {one.get("name") for key in ("containers", "initContainers") for one in pod.get(key) or ()}
    for index, rule in enumerate(rules):
        where = f"{field}.rules[{index}]"
        action = rule.get("action") or ""
        if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            yield invalid(f"{where}.action", action, "requires the backoffLimitPerIndex to be set")
        elif not action:
            yield required(f"{where}.action", f"valid values: {', '.join(_ACTIONS)}")
        elif action not in _ACTIONS:
            yield not_supported(f"{where}.action", action, _ACTIONS)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
        if codes is None and not conditions:
            yield invalid_without_value(where, "specifying one of OnExitCodes and OnPodConditions is required")
        elif codes is not None and conditions:
            yield invalid_without_value(where, "specifying both OnExitCodes and OnPodConditions is not supported")
        if codes is not None:
            yield from _check_exit_codes(codes, names, f"{where}.onExitCodes")
        for number, condition in enumerate(conditions):
            status = condition.get("status") or ""
            if status not in _STATUSES:
                yield not_supported(f"{where}.onPodConditions[{number}].status", status, _STATUSES)


def _check_exit_codes(codes: Raw, names: set[str | None], field: str) -> Iterator[Cause]:
    operator, values = codes.get("operator") or "", codes.get("values") or []
    if operator not in _OPERATORS:
        yield not_supported(f"{field}.operator", operator, _OPERATORS)
    if codes.get("containerName") is not None and codes["containerName"] not in names:
        text = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{field}.containerName", codes["containerName"], text)
    if not values:
        yield invalid(f"{field}.values", values, "at least one value is required")
    elif len(values) > _MAX_EXIT_CODES:
        yield too_many(f"{field}.values", len(values), _MAX_EXIT_CODES)
    for index, value in enumerate(values):
        if value == 0 and operator == "In":
            yield invalid(f"{field}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield invalid(f"{field}.values[{index}]", value, "duplicate value")
    if any(first > second for first, second in pairwise(values)):
        yield invalid(f"{field}.values", values, "must be ordered")


def _check_success_policy(policy: Raw, completions: int, field: str) -> Iterator[Cause]:
    rules = policy.get("rules") or []
    if not rules:
        yield required(f"{field}.rules", "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _MAX_RULES:
        yield too_many(f"{field}.rules", len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        where, count, indexes = f"{field}.rules[{index}]", rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            yield required(where, "at least one of succeededCount or succeededIndexes must be specified")
        if indexes is not None and (why := _indexes_fault(indexes, completions)):
            yield invalid(f"{where}.succeededIndexes", indexes, f"error parsing succeededIndexes: {why}")
        if count is not None:
            yield from common.check_not_negative(count, f"{where}.succeededCount")
            if count > completions:
                text = f"must be less than or equal to {completions} (the number of specified completions)"
                yield invalid(f"{where}.succeededCount", count, text)


def _indexes_fault(text: str, completions: int) -> str:
    """Why a text is no list of ranges of indexes in ascending order; empty if it is one."""
    last = -1
    for part in text.split(",") if text else ():
        first, dash, end = part.partition("-")
        for number in (first, end) if dash else (first,):
            if not number.isdecimal():
                return f'cannot convert string to integer for index: "{number}"'
            if int(number) >= completions:
                return f'too large index: "{number}"'
        if int(first) <= last:
            return f"non-increasing order, previous: {last}, current: {first}"
        if dash and int(end) <= int(first):
            return f"non-increasing order, previous: {first}, current: {end}"
        last = int(end or first)
    return ""
