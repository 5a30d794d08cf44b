"""The functions that Kubernetes adds to CEL: quantities, addresses, versions, URLs, lists, patterns.

A value of a type that CEL does not have is a map with one key, the name of its type.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_plus, urlsplit

from trimtab.api.quantity import parse_quantity
from trimtab.api.schema.go_regexp import go_finder
from trimtab.api.value import Raw

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?\Z"
)


class Overload(NamedTuple):
    """One overload of a function; types are CEL's names, or capitalised names for the types that CEL lacks."""

    name: str
    argument_types: tuple[str, ...]
    result_type: str
    function: Callable[..., Any]
    member: bool = False


def _parse_quantity_value(text: str) -> Raw:
    return {"Quantity": str(parse_quantity(text))}


def _quantity_amount(quantity: Raw) -> Fraction:
    return Fraction(quantity["Quantity"])


def _parse_semver(text: str) -> Raw:
    match = _SEMVER.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a semantic version")
    return {"Semver": [int(match[1]), int(match[2]), int(match[3]), match[4] or ""]}


def _semver_sort_key(version: Raw) -> tuple[Any, ...]:
    """A release is newer than its candidates; numbers compare as numbers and come before words."""
    major, minor, patch, candidate = version["Semver"]
    parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in candidate.split("."))
    return (major, minor, patch, not candidate, parts)


def _sort_key(value: Raw) -> Any:
    return _quantity_amount(value) if "Quantity" in value else _semver_sort_key(value)


def _compare(left: Raw, right: Raw) -> int:
    first, second = _sort_key(left), _sort_key(right)
    return int(first > second) - int(first < second)


def _parse_ip(text: str) -> Raw:
    address = ip_address(text)
    if isinstance(address, IPv6Address) and (address.ipv4_mapped or address.scope_id):
        raise ValueError(f"{text!r} is not a valid IP address")
    return {"IP": str(address)}


def _address(value: Raw) -> IPv4Address | IPv6Address:
    return ip_address(value["IP"])


def _parse_cidr(text: str) -> Raw:
    address, _, length = text.partition("/")
    if not length.isdigit() or "." in length:
        raise ValueError(f"{text!r} is not a valid CIDR")
    ip_network(text, strict=False)
    return {"CIDR": f"{ip_address(address)}/{length}"}


def _network(value: Raw) -> Any:
    return ip_network(value["CIDR"], strict=False)


def _is_subnet(inner: Any, outer: Any) -> bool:
    return inner.version == outer.version and bool(inner.subnet_of(outer))


def _parse_url(text: str) -> Raw:
    parts = urlsplit(text)
    bad = _BAD_ESCAPE.search(text) or not text.isprintable()
    if bad or (not parts.scheme and not text.startswith("/")):
        raise ValueError(f"{text!r} is not a URL")
    _ = parts.port
    return {"URL": text}


def _host(value: Raw) -> str:
    return urlsplit(value["URL"]).netloc.rpartition("@")[2]


def _escaped_path(value: Raw) -> str:
    return quote(urlsplit(value["URL"]).path, safe="/%:@!$&'()*+,;=~-._[]")


def _query(value: Raw) -> Raw:
    found: dict[str, list[str]] = {}
    for pair in filter(None, urlsplit(value["URL"]).query.split("&")):
        key, _, text = pair.partition("=")
        if ";" not in pair:
            found.setdefault(unquote_plus(key), []).append(unquote_plus(text))
    return found


def _validator(parser: Callable[[str], Raw]) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            parser(text)
        except ValueError:
            return False
        return True

    return accepts


def _is_canonical(text: str) -> bool:
    return bool(_parse_ip(text)["IP"] == text)


def _address_text(value: Raw) -> str:
    """An address or a range as text; the other opaque types have none."""
    found = value.get("IP", value.get("CIDR"))
    if not isinstance(found, str):
        raise TypeError("the value cannot be converted to a string")
    return found


def _index_of(values: list[Any], wanted: Any) -> int:
    return next((index for index, value in enumerate(values) if _cel_equal(value, wanted)), -1)


def _last_index_of(values: list[Any], wanted: Any) -> int:
    from_end = _index_of(values[::-1], wanted)
    return from_end if from_end < 0 else len(values) - 1 - from_end


def _cel_equal(left: Any, right: Any) -> bool:
    """A boolean never equals a number in CEL."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    finder = go_finder(pattern)
    if finder is None:
        raise ValueError(f"cannot parse {pattern!r}")
    return finder.find_all(text, limit)


def _is_sorted(values: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(values))


def _as_integer(quantity: Raw) -> int:
    amount = _quantity_amount(quantity)
    if amount.denominator != 1:
        raise ValueError("the quantity is not a whole number")
    return amount.numerator


def _sign(quantity: Raw) -> int:
    return (_quantity_amount(quantity) > 0) - (_quantity_amount(quantity) < 0)


def _add_quantities(left: Raw, right: Raw) -> Raw:
    return {"Quantity": str(_quantity_amount(left) + _quantity_amount(right))}


def _subtract_quantities(left: Raw, right: Raw) -> Raw:
    return {"Quantity": str(_quantity_amount(left) - _quantity_amount(right))}


def library_overloads() -> list[Overload]:
    """Every function of the Kubernetes libraries that selectors may use."""
    return [
        *_quantity_overloads(),
        *_address_overloads(),
        *_semver_overloads(),
        *_url_overloads(),
        *_list_overloads(),
        *_pattern_overloads(),
    ]


def _comparison_overloads(type_: str) -> list[Overload]:
    return [
        Overload("isLessThan", (type_, type_), "bool", lambda a, b: _compare(a, b) < 0, member=True),
        Overload("isGreaterThan", (type_, type_), "bool", lambda a, b: _compare(a, b) > 0, member=True),
        Overload("compareTo", (type_, type_), "int", _compare, member=True),
    ]


def _quantity_overloads() -> list[Overload]:
    return [
        Overload("quantity", ("string",), "Quantity", _parse_quantity_value),
        Overload("isQuantity", ("string",), "bool", _validator(_parse_quantity_value)),
        Overload("sign", ("Quantity",), "int", _sign, member=True),
        Overload("isInteger", ("Quantity",), "bool", lambda q: _quantity_amount(q).denominator == 1, member=True),
        Overload("asInteger", ("Quantity",), "int", _as_integer, member=True),
        Overload("asApproximateFloat", ("Quantity",), "double", lambda q: float(_quantity_amount(q)), member=True),
        Overload("add", ("Quantity", "Quantity"), "Quantity", _add_quantities, member=True),
        Overload(
            "add", ("Quantity", "int"), "Quantity", lambda q, n: _add_quantities(q, {"Quantity": str(n)}), member=True
        ),
        Overload("sub", ("Quantity", "Quantity"), "Quantity", _subtract_quantities, member=True),
        Overload(
            "sub",
            ("Quantity", "int"),
            "Quantity",
            lambda q, n: _subtract_quantities(q, {"Quantity": str(n)}),
            member=True,
        ),
        *_comparison_overloads("Quantity"),
    ]


def _address_overloads() -> list[Overload]:
    return [
        Overload("ip", ("string",), "IP", _parse_ip),
        Overload("isIP", ("string",), "bool", _validator(_parse_ip)),
        Overload("family", ("IP",), "int", lambda a: _address(a).version, member=True),
        Overload("isUnspecified", ("IP",), "bool", lambda a: _address(a).is_unspecified, member=True),
        Overload("isLoopback", ("IP",), "bool", lambda a: _address(a).is_loopback, member=True),
        Overload("isLinkLocalUnicast", ("IP",), "bool", lambda a: _address(a).is_link_local, member=True),
        Overload("isLinkLocalMulticast", ("IP",), "bool", _is_link_local_multicast, member=True),
        Overload("ip.isCanonical", ("string",), "bool", _is_canonical),
        Overload("string", ("IP",), "string", _address_text),
        Overload("string", ("CIDR",), "string", _address_text),
        Overload("isGlobalUnicast", ("IP",), "bool", _is_global_unicast, member=True),
        Overload("cidr", ("string",), "CIDR", _parse_cidr),
        Overload("isCIDR", ("string",), "bool", _validator(_parse_cidr)),
        Overload("containsIP", ("CIDR", "IP"), "bool", lambda c, a: _address(a) in _network(c), member=True),
        Overload("containsIP", ("CIDR", "string"), "bool", lambda c, a: ip_address(a) in _network(c), member=True),
        Overload(
            "containsCIDR", ("CIDR", "CIDR"), "bool", lambda c, d: _is_subnet(_network(d), _network(c)), member=True
        ),
        Overload(
            "containsCIDR",
            ("CIDR", "string"),
            "bool",
            lambda c, d: _is_subnet(ip_network(d, strict=False), _network(c)),
            member=True,
        ),
        Overload("ip", ("CIDR",), "IP", lambda c: {"IP": c["CIDR"].partition("/")[0]}, member=True),
        Overload("masked", ("CIDR",), "CIDR", lambda c: {"CIDR": str(_network(c))}, member=True),
        Overload("prefixLength", ("CIDR",), "int", lambda c: _network(c).prefixlen, member=True),
    ]


def _is_link_local_multicast(value: Raw) -> bool:
    address = _address(value)
    local = "224.0.0.0/24" if address.version == 4 else "ff02::/16"
    return address in ip_network(local)


def _is_global_unicast(value: Raw) -> bool:
    address = _address(value)
    broadcast = str(address) == "255.255.255.255"
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not (special or broadcast)


def _semver_overloads() -> list[Overload]:
    return [
        Overload("semver", ("string",), "Semver", _parse_semver),
        Overload("isSemver", ("string",), "bool", _validator(_parse_semver)),
        Overload("major", ("Semver",), "int", lambda v: v["Semver"][0], member=True),
        Overload("minor", ("Semver",), "int", lambda v: v["Semver"][1], member=True),
        Overload("patch", ("Semver",), "int", lambda v: v["Semver"][2], member=True),
        *_comparison_overloads("Semver"),
    ]


def _url_overloads() -> list[Overload]:
    return [
        Overload("url", ("string",), "URL", _parse_url),
        Overload("isURL", ("string",), "bool", _validator(_parse_url)),
        Overload("getScheme", ("URL",), "string", lambda u: urlsplit(u["URL"]).scheme, member=True),
        Overload("getHost", ("URL",), "string", _host, member=True),
        Overload("getHostname", ("URL",), "string", lambda u: urlsplit(u["URL"]).hostname or "", member=True),
        Overload("getPort", ("URL",), "string", lambda u: str(urlsplit(u["URL"]).port or ""), member=True),
        Overload("getEscapedPath", ("URL",), "string", _escaped_path, member=True),
        Overload("getQuery", ("URL",), "Map", _query, member=True),
    ]


def _list_overloads() -> list[Overload]:
    return [
        Overload("isSorted", ("list",), "bool", _is_sorted, member=True),
        Overload("sum", ("list",), "dyn", lambda values: sum(values[1:], values[0]) if values else 0, member=True),
        Overload("min", ("list",), "dyn", min, member=True),
        Overload("max", ("list",), "dyn", max, member=True),
        Overload("indexOf", ("list", "dyn"), "int", _index_of, member=True),
        Overload("lastIndexOf", ("list", "dyn"), "int", _last_index_of, member=True),
    ]


def _pattern_overloads() -> list[Overload]:
    return [
        Overload("find", ("string", "string"), "string", lambda t, p: "".join(_find_all(t, p, 1)), member=True),
        Overload("findAll", ("string", "string"), "texts", _find_all, member=True),
        Overload("findAll", ("string", "string", "int"), "texts", _find_all, member=True),
    ]
