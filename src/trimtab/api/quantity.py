"""Kubernetes quantities (`500m`, `1Gi`, `1e3`) as exact integers, never as floats."""

import re
from fractions import Fraction

from trimtab.api.text_cache import cache_short_texts
from trimtab.api.value import QuantityText

_PATTERN = re.compile(r"([+-]?)(\d++\.?\d*+|\.\d++)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d++)?\Z", re.ASCII)
_MAX_LENGTH = 1024
"""The maximum length of a quantity: more than any amount needs, and few enough to keep exact arithmetic cheap."""
_MAX_CACHED_LENGTH = 32
"""Longer ones are rare and parsed each time: callers choose them, and each of them takes memory."""
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_MAX_INT64 = (1 << 63) - 1


class InvalidQuantity(ValueError):
    """The text is not a quantity."""


def _match(text: str) -> re.Match[str]:
    match = _PATTERN.match(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise InvalidQuantity(f"{text[:_MAX_LENGTH]!r} is not a quantity")
    return match


@cache_short_texts(65536, longest=_MAX_CACHED_LENGTH)
def _parse_text(text: str) -> Fraction:
    match = _match(text)
    sign, digits, suffix = match[1], match[2], match[3] or ""
    if suffix in _BINARY:
        scale = Fraction(1024 ** _BINARY[suffix])
    elif suffix in _DECIMAL:
        scale = Fraction(10) ** _DECIMAL[suffix]
    else:
        exponent = int(suffix[1:])
        if abs(exponent) > 64:  # a limit, because `1e999999999` would be slow
            raise InvalidQuantity(f"{text!r} has an exponent out of range")
        scale = Fraction(10) ** exponent
    amount = Fraction(digits if not digits.startswith(".") else "0" + digits) * scale
    return -amount if sign == "-" else amount


def parse_quantity(quantity: QuantityText) -> Fraction:
    """The exact amount."""
    return _parse_text(quantity if isinstance(quantity, str) else repr(quantity))


def is_negative(quantity: QuantityText) -> bool:
    """Whether a valid quantity is below zero."""
    text = quantity if isinstance(quantity, str) else repr(quantity)
    return "-" in text and _parse_text(text) < 0


def _ceil(amount: Fraction) -> int:
    return max(-_MAX_INT64, min(_MAX_INT64, -(-amount.numerator // amount.denominator)))


def _parse_common_form(text: str) -> int | None:
    """The thousandths of the common forms `500m`, `3` and `2Gi`, computed without fractions; None for all others."""
    if len(text) > _MAX_LENGTH or not text.isascii():
        return None
    if text.isdecimal():
        return int(text) * 1000
    if text.endswith("m") and text[:-1].isdecimal():
        return int(text[:-1])
    power = _BINARY.get(text[-2:])
    return int(text[:-2]) * 1024**power * 1000 if power and text[:-2].isdecimal() else None


@cache_short_texts(65536, longest=_MAX_CACHED_LENGTH)
def _int_value(text: str) -> int:
    thousandths = _parse_common_form(text)
    return _ceil(_parse_text(text)) if thousandths is None else min(_MAX_INT64, -(-thousandths // 1000))


@cache_short_texts(65536, longest=_MAX_CACHED_LENGTH)
def _milli_value(text: str) -> int:
    thousandths = _parse_common_form(text)
    return _ceil(_parse_text(text) * 1000) if thousandths is None else min(_MAX_INT64, thousandths)


def int_value(quantity: QuantityText) -> int:
    """The amount rounded up to a whole number, saturating at int64 as Kubernetes does."""
    return _int_value(quantity if isinstance(quantity, str) else repr(quantity))


def milli_value(quantity: QuantityText) -> int:
    """The amount in thousandths, rounded up, saturating at int64 as Kubernetes does."""
    return _milli_value(quantity if isinstance(quantity, str) else repr(quantity))


@cache_short_texts(65536, longest=_MAX_CACHED_LENGTH)
def _approximate_float(text: str) -> float:
    match = _match(text)
    digits, suffix = match[1] + match[2], match[3] or ""
    before, _, after = digits.partition(".")
    if suffix in _BINARY:
        amount = _parse_text(text)
        if amount.denominator == 1:
            return float(amount)
        nano = amount * 10**9
        return float(-(-nano.numerator // nano.denominator)) * 1e-9
    exponent = (_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])) - len(after)
    mantissa = int(before + after)
    return float(mantissa) if exponent == 0 else mantissa * float(f"1e{exponent}")


def approximate_float(quantity: QuantityText) -> float:
    """The amount as a float, as `AsApproximateFloat64` of Kubernetes: digits times a power of ten."""
    return _approximate_float(quantity if isinstance(quantity, str) else repr(quantity))


def _format_decimal(amount: Fraction) -> str:
    if amount == 0:
        return "0"
    sign, amount = ("-", -amount) if amount < 0 else ("", amount)
    nano = -(-(amount * 10**9).numerator // (amount * 10**9).denominator)
    exponent = -9
    while exponent < 18 and nano % 1000 == 0:
        nano //= 1000
        exponent += 3
    suffix = next(s for s, e in _DECIMAL.items() if e == exponent)
    return f"{sign}{nano}{suffix}"


def _format_binary(amount: Fraction) -> str:
    if amount.denominator != 1 or abs(amount) < 1024:
        return _format_decimal(amount)
    number, power = abs(amount.numerator), 0
    while power < 6 and number % 1024 == 0:
        number //= 1024
        power += 1
    suffix = next((s for s, p in _BINARY.items() if p == power), "")
    return f"{'-' if amount < 0 else ''}{number}{suffix}"


def canonical_form(quantity: QuantityText) -> str:
    """The canonical form of Kubernetes: the same suffix family as given, no fraction, the largest suffix that fits."""
    text = quantity if isinstance(quantity, str) else repr(quantity)
    amount = _parse_text(text)
    if text.endswith("i"):
        return _format_binary(amount)
    if re.search(r"[eE][+-]?\d+\Z", text):
        return _format_exponent(amount)
    return _format_decimal(amount)


def _format_exponent(amount: Fraction) -> str:
    plain = _format_decimal(amount)
    for suffix, exponent in _DECIMAL.items():
        if suffix and plain.endswith(suffix):
            return f"{plain[: -len(suffix)]}e{exponent}"
    return plain


def from_milli(amount: int, *, binary: bool = False) -> str:
    """A quantity from thousandths."""
    return _format_binary(Fraction(amount, 1000)) if binary else _format_decimal(Fraction(amount, 1000))


def from_int(amount: int, *, binary: bool = False) -> str:
    """A quantity from a whole number."""
    return _format_binary(Fraction(amount)) if binary else _format_decimal(Fraction(amount))


def add_quantities(quantities: "list[QuantityText] | tuple[QuantityText, ...]") -> str:
    """The sum, in the suffix family of the first quantity that is not zero."""
    if not quantities:
        return "0"
    total = sum((parse_quantity(q) for q in quantities), Fraction(0))
    family = next((str(q) for q in quantities if parse_quantity(q)), str(quantities[0]))
    return _format_binary(total) if family.endswith("i") else _format_decimal(total)


def format_like(amount: Fraction, example: QuantityText) -> str:
    """An exact amount in the suffix family of another quantity."""
    text = example if isinstance(example, str) else repr(example)
    return _format_binary(amount) if _match(text)[3] in _BINARY else _format_decimal(amount)
