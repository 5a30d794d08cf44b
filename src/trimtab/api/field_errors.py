"""Validation errors of fields, worded exactly as in Kubernetes, because tools match these texts."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from trimtab.errors import Cause


def go_number(value: float) -> str:
    """A number as Go prints it: no trailing `.0`, an exponent when a float is a million or more, or tiny."""
    if isinstance(value, int):
        return str(value)
    digits, _, exponent = f"{value!r:}".partition("e")
    plain = digits.removesuffix(".0")
    if exponent:
        return f"{plain}e{int(exponent):+03d}"
    if abs(value) < 1e6 or not math.isfinite(value):
        return plain
    mantissa, _, power = f"{value:.17e}".partition("e")
    shortest = repr(float(mantissa)).removesuffix(".0")
    return f"{shortest}e{int(power):+03d}"


def shown(value: Any) -> str:
    """A value as Kubernetes formats it in a validation error."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return go_number(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _with(detail: str) -> str:
    return f": {detail}" if detail else ""


def required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value{_with(detail)}", field)


def invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}{_with(detail)}", field)


def invalid_without_value(field: str, detail: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value{_with(detail)}", field)


def type_invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueTypeInvalid", f"Invalid value: {shown(value)}{_with(detail)}", field)


def not_supported(field: str, value: Any, supported: Iterable[Any]) -> Cause:
    listed = ", ".join(shown(s if isinstance(s, str) else shown(s)) for s in supported)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}", field)


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def forbidden(field: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden{_with(detail)}", field)


def too_long(field: str, most: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {most} bytes", field)


def too_many(field: str, count: int, most: int) -> Cause:
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {most} items", field)


def sentence(causes: Sequence[Cause]) -> str:
    """All errors in one message, without duplicates, in brackets when there are several."""
    texts = list(dict.fromkeys(f"{c.field}: {c.message}" for c in causes))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
