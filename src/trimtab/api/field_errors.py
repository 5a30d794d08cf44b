"""Validation errors of fields, worded exactly as in Kubernetes, because tools match these texts."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from trimtab.errors import Cause


def format_go_number(value: float) -> str:
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


def format_value(value: Any) -> str:
    """A value as Kubernetes formats it in a validation error."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return format_go_number(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _detail_suffix(detail: str) -> str:
    return f": {detail}" if detail else ""


def required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value{_detail_suffix(detail)}", field)


def invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {format_value(value)}{_detail_suffix(detail)}", field)


def invalid_without_value(field: str, detail: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value{_detail_suffix(detail)}", field)


def type_invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueTypeInvalid", f"Invalid value: {format_value(value)}{_detail_suffix(detail)}", field)


def not_supported(field: str, value: Any, supported: Iterable[Any]) -> Cause:
    listed = ", ".join(format_value(s if isinstance(s, str) else format_value(s)) for s in supported)
    return Cause(
        "FieldValueNotSupported", f"Unsupported value: {format_value(value)}: supported values: {listed}", field
    )


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {format_value(value)}", field)


def forbidden(field: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden{_detail_suffix(detail)}", field)


def too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def too_many(field: str, count: int, limit: int) -> Cause:
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {limit} items", field)


def format_causes(causes: Sequence[Cause]) -> str:
    """All errors in one message, without duplicates, in brackets when there are several."""
    texts = list(dict.fromkeys(f"{c.field}: {c.message}" for c in causes))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def join_causes(causes: Sequence[Cause]) -> str:
    """The causes as one text, without duplicates."""
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
