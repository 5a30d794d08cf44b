"""Validation rules that many kinds share: names, labels, selectors, numbers, ports, immutability."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from trimtab.api import quantity
from trimtab.api.field_errors import duplicate, forbidden, invalid, not_supported, required
from trimtab.api.names import label_value_faults, qualified_name_faults
from trimtab.api.value import Raw
from trimtab.errors import Cause

_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+\Z")
_PERCENT = re.compile(r"[0-9]{1,18}%\Z")
"""At most 18 digits, so that the number fits an int64."""

_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
IMMUTABLE = "field is immutable"


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def check_labels(labels: Raw | None, field: str) -> Iterator[Cause]:
    for key, value in sorted((labels or {}).items()):
        for fault in qualified_name_faults(key):
            yield invalid(field, key, fault)
        for fault in label_value_faults(value):
            yield invalid(field, value, fault)


def check_annotations(annotations: Raw | None, field: str) -> Iterator[Cause]:
    refused = [key for key in annotations or () if qualified_name_faults(key)]  # a valid key is also so in lower case
    for key in sorted(refused):
        for fault in qualified_name_faults(key.lower()):
            yield invalid(field, key, fault)


def config_key_faults(key: str) -> list[str]:
    if len(key) > 253:
        return [_too_long(253)]
    if key == ".":
        return ["must not be '.'"]
    if key == "..":
        return ["must not be '..'"]
    if key.startswith(".."):
        return ["must not start with '..'"]
    return [] if _CONFIG_KEY.match(key) else [_CONFIG_KEY_TEXT]


_OPERATORS_WITH_VALUES = ("In", "NotIn")
_OPERATORS_WITHOUT_VALUES = ("Exists", "DoesNotExist")


def check_selector(selector: Raw | None, field: str) -> Iterator[Cause]:
    """Check a label selector by itself, without the labels it is applied to."""
    if selector is None:
        return
    yield from check_labels(selector.get("matchLabels"), f"{field}.matchLabels")
    for index, rule in enumerate(selector.get("matchExpressions") or ()):
        yield from _check_requirement(rule, f"{field}.matchExpressions[{index}]")


def _check_requirement(requirement: Raw, field: str) -> Iterator[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in _OPERATORS_WITH_VALUES and not values:
        yield required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _OPERATORS_WITHOUT_VALUES and values:
        yield forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator not in (*_OPERATORS_WITH_VALUES, *_OPERATORS_WITHOUT_VALUES):
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    for fault in qualified_name_faults(requirement.get("key", "")):
        yield invalid(f"{field}.key", requirement.get("key", ""), fault)
    for index, value in enumerate(values if operator in _OPERATORS_WITH_VALUES else ()):
        for fault in label_value_faults(value):
            yield invalid(f"{field}.values[{index}]", value, fault)


def is_empty_selector(selector: Raw) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selector_matches(selector: Raw, labels: Raw) -> bool:
    """Whether labels match a valid selector."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_requirement_matches(rule, labels) for rule in selector.get("matchExpressions") or ())


def _requirement_matches(requirement: Raw, labels: Raw) -> bool:
    key, operator, values = requirement.get("key", ""), requirement.get("operator"), requirement.get("values") or []
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    return (key in labels) == (operator == "Exists")


def check_not_negative(value: Any, field: str) -> Iterator[Cause]:
    if isinstance(value, int) and value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")


def check_positive(value: Any, field: str) -> Iterator[Cause]:
    if isinstance(value, int) and value <= 0:
        yield invalid(field, value, "must be greater than 0")


def check_count_or_percent(value: Any, field: str) -> Iterator[Cause]:
    if isinstance(value, str):
        if not _PERCENT.match(value):
            yield invalid(field, value, _PERCENT_TEXT)
    else:
        yield from check_not_negative(value, field)


def check_at_most_100_percent(value: Any, field: str) -> Iterator[Cause]:
    if isinstance(value, str) and _PERCENT.match(value) and int(value[:-1]) > 100:
        yield invalid(field, value, "must not be greater than 100%")


def count_or_percent_value(value: Any) -> int:
    """A count or percentage as a number, for comparison with zero."""
    if isinstance(value, str):
        return int(value[:-1]) if _PERCENT.match(value) else 0
    return value or 0


def check_port_number(value: Any, field: str) -> Iterator[Cause]:
    if not isinstance(value, int) or not 1 <= value <= 65535:
        yield invalid(field, value, "must be between 1 and 65535, inclusive")


def port_name_faults(name: str) -> list[str]:
    faults = []
    if len(name) > 15:
        faults.append("must be no more than 15 bytes")
    if not re.match(r"[-a-z0-9]+\Z", name):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        faults.append("must contain at least one letter (a-z)")
    if "--" in name:
        faults.append("must not contain consecutive hyphens")
    if name[:1] == "-" or name[-1:] == "-":
        faults.append("must not begin or end with a hyphen")
    return faults


def check_port_or_name(value: Any, field: str) -> Iterator[Cause]:
    if isinstance(value, str):
        for fault in port_name_faults(value):
            yield invalid(field, value, fault)
    else:
        yield from check_port_number(value, field)


def check_one_of(value: Any, allowed: Iterable[str], field: str) -> Iterator[Cause]:
    choices = tuple(allowed)
    if value not in choices:
        yield not_supported(field, value or "", choices)


def check_unique(values: Iterable[tuple[Any, str]]) -> Iterator[Cause]:
    """Report each (value, field) whose value occurred before."""
    seen: list[Any] = []
    for value, field in values:
        if value in seen:
            yield duplicate(field, value)
        seen.append(value)


def check_unchanged(new: Any, old: Any, field: str) -> Iterator[Cause]:
    if new != old:
        yield invalid(field, new, IMMUTABLE)


def check_quantities(resources: Raw | None, field: str) -> Iterator[Cause]:
    """Check that no quantity is negative."""
    for name, value in sorted((resources or {}).items()):
        if quantity.is_negative(value):
            yield invalid(f"{field}[{name}]", str(value), "must be greater than or equal to 0")
