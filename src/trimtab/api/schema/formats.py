"""The string formats that a schema may name, as kube-apiserver validates them."""

import base64
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))\Z")
_DURATION = re.compile(r"[+-]?(0|((\d++\.?\d*+|\.\d++)(ns|us|µs|μs|ms|s|m|h))++)\Z")
_SPELLED_OUT_DURATION = re.compile(r"((\d+)\s*([A-Za-zµ]+))+\Z")
"""`2 days`, which Go's strfmt accepts as well."""
_ISO_DURATION = re.compile(r"P(?=.)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?\Z")
_DURATION_UNITS = re.compile(
    r"(ns|us|µs|ms|s|m|h|d|w|nanos?\w*|micros?\w*|millis?\w*|sec\w*|min\w*|h(ou)?rs?|days?|weeks?|wks?)\Z"
)
_HOST = re.compile(
    r"([a-zA-Z0-9](-?[a-zA-Z0-9]{0,62})?|([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63})\Z"
)
_DOTTED_QUAD = re.compile(r"\d{1,3}(\.\d{1,3}){3}\Z")
_MAIL = re.compile(r"([^@\s<>]+@[^@\s<>]+|[^<>]*<[^@\s<>]+@[^@\s<>]+>)\Z")
_MAC = re.compile(
    r"([0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}|[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){7}|([0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4})\Z"
)


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False


def is_date_time(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    match = _TIME.match(rest)
    return match is not None and _is_date(day) and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _is_byte(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except ValueError:  # also raised for characters outside ASCII
        return False


def _is_ipv4(text: str) -> bool:
    """Leading zeros are accepted, as older versions of Go did."""
    return _DOTTED_QUAD.match(text) is not None and all(int(part) < 256 for part in text.split("."))


def _is_ipv6(text: str) -> bool:
    try:
        return "%" not in text and ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


def _is_network(text: str) -> bool:
    try:
        return "/" in text and bool(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return False


def _is_uri(text: str) -> bool:
    try:
        return bool(urlsplit(text).scheme) or text.startswith("/")
    except ValueError:
        return False


def _is_duration(text: str) -> bool:
    if _DURATION.match(text) or _ISO_DURATION.match(text):
        return True
    return _SPELLED_OUT_DURATION.match(text) is not None and all(
        _DURATION_UNITS.match(unit) for unit in re.findall(r"[A-Za-zµ]+", text)
    )


def _uuid_check(version: str = "") -> Callable[[str], bool]:
    digit = f"-?{version}[0-9a-f]{{3}}" if version else "-?[0-9a-f]{4}"
    variant = "-?[89ab][0-9a-f]{3}" if version in ("4", "5") else "-?[0-9a-f]{4}"
    shape = re.compile(rf"[0-9a-f]{{8}}-?[0-9a-f]{{4}}{digit}{variant}-?[0-9a-f]{{12}}\Z", re.IGNORECASE)
    return lambda text: shape.match(text) is not None


FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": is_date_time,
    "datetime": is_date_time,
    "date": _is_date,
    "byte": _is_byte,
    "duration": _is_duration,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_network,
    "mac": lambda text: _MAC.match(text) is not None,
    "hostname": lambda text: _HOST.match(text) is not None,
    "email": lambda text: _MAIL.match(text) is not None,
    "uri": _is_uri,
    "password": lambda _: True,
    "uuid": _uuid_check(),
    "uuid3": _uuid_check("3"),
    "uuid4": _uuid_check("4"),
    "uuid5": _uuid_check("5"),
}
