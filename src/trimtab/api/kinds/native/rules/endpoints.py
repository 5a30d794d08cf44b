"""What kube-apiserver rejects in Endpoints and EndpointSlices.

It rejects loopback addresses as well. Here they are allowed: the servers behind the Services of a simulated cluster listen on
this machine.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from trimtab.api.field_errors import duplicate, invalid, not_supported, required, too_many
from trimtab.api.kinds.native.rules import common
from trimtab.api.names import label_faults, subdomain_faults
from trimtab.api.value import Raw
from trimtab.errors import Cause

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_ADDRESSES = 100
_LINK_LOCAL_TEXT = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
_MULTICAST_TEXT = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"


def check_endpoints(new: Raw, old: Raw | None) -> Sequence[Cause]:
    if old is not None and old.get("subsets") == new.get("subsets"):
        return []
    return [
        cause
        for index, subset in enumerate(new.get("subsets") or ())
        for cause in _check_subset(subset, f"subsets[{index}]")
    ]


def _check_subset(subset: Raw, field: str) -> Iterator[Cause]:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        yield required(field, "must specify `addresses` or `notReadyAddresses`")
    for part in ("addresses", "notReadyAddresses"):
        for index, address in enumerate(subset.get(part) or ()):
            yield from _check_address(address, f"{field}.{part}[{index}]")
    ports = subset.get("ports") or []
    for index, port in enumerate(ports):
        where, name = f"{field}.ports[{index}]", port.get("name", "")
        if not name and len(ports) > 1:
            yield required(f"{where}.name")
        for fault in label_faults(name) if name else ():
            yield invalid(f"{where}.name", name, fault)
        yield from common.check_port_number(port.get("port", 0), f"{where}.port")
        yield from common.check_one_of(port.get("protocol", "TCP"), _PROTOCOLS, f"{where}.protocol")


def _check_address(address: Raw, field: str) -> Iterator[Cause]:
    text = address.get("ip", "")
    if _parse(text) is None:
        yield invalid(f"{field}.ip", text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
    for fault in label_faults(address["hostname"]) if address.get("hostname") else ():
        yield invalid(f"{field}.hostname", address["hostname"], fault)
    for fault in subdomain_faults(address["nodeName"]) if address.get("nodeName") else ():
        yield invalid(f"{field}.nodeName", address["nodeName"], fault)
    yield from _check_special(text, f"{field}.ip")


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _check_special(text: str, field: str) -> Iterator[Cause]:
    """Addresses that no endpoint can have."""
    address = _parse(text)
    if address is None:
        yield invalid(field, text, "must be a valid IP address")
    elif address.is_unspecified:
        yield invalid(field, text, f"may not be unspecified ({text})")
    elif address.is_multicast:
        yield invalid(field, text, _MULTICAST_TEXT)
    elif address.is_link_local:
        yield invalid(field, text, _LINK_LOCAL_TEXT)


def check_endpoint_slice(new: Raw, old: Raw | None) -> Sequence[Cause]:
    kind, found = new.get("addressType", ""), list[Cause]()
    if not kind:
        found.append(required("addressType"))
    elif kind not in _ADDRESS_TYPES:
        found.append(not_supported("addressType", kind, _ADDRESS_TYPES))
    if old is None or (old.get("endpoints"), old.get("addressType")) != (new.get("endpoints"), kind):
        for index, endpoint in enumerate(new.get("endpoints") or ()):
            found += _check_endpoint(endpoint, kind, f"endpoints[{index}]")
    found += _check_slice_ports(new.get("ports") or ())
    if old is not None and old.get("addressType") != kind:
        found.append(invalid("addressType", kind, common.IMMUTABLE))
    return found


def _check_endpoint(endpoint: Raw, kind: str, field: str) -> Iterator[Cause]:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        yield required(f"{field}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MAX_ADDRESSES:
        yield too_many(f"{field}.addresses", len(addresses), _MAX_ADDRESSES)
    for index, text in enumerate(addresses):
        yield from _check_slice_address(text, kind, f"{field}.addresses[{index}]")
    for fault in subdomain_faults(endpoint["nodeName"]) if endpoint.get("nodeName") else ():
        yield invalid(f"{field}.nodeName", endpoint["nodeName"], fault)
    for fault in label_faults(endpoint["hostname"]) if endpoint.get("hostname") else ():
        yield invalid(f"{field}.hostname", endpoint["hostname"], fault)
    zones: set[str] = set()
    for index, zone in enumerate((endpoint.get("hints") or {}).get("forZones") or ()):
        name = zone.get("name", "")
        if name in zones:
            yield duplicate(f"{field}.hints.forZones[{index}].name", name)
        zones.add(name)


def _check_slice_address(text: str, kind: str, field: str) -> Iterator[Cause]:
    if kind == "FQDN":
        for fault in subdomain_faults(text):
            yield invalid(field, text, fault)
        return
    address, wanted = _parse(text), {"IPv4": IPv4Address, "IPv6": IPv6Address}.get(kind)
    if wanted is not None and not isinstance(address, wanted):
        yield invalid(field, text, f"must be a valid {kind} address")
    if wanted is not None:
        yield from _check_special(text, field)


def _check_slice_ports(ports: Sequence[Raw]) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        field, name = f"ports[{index}]", port.get("name") or ""
        for fault in label_faults(name) if name else ():
            yield invalid(f"{field}.name", name, fault)
        if name in names:
            yield duplicate(f"{field}.name", name)
        names.add(name)
        yield from common.check_one_of(port.get("protocol") or "TCP", _PROTOCOLS, f"{field}.protocol")
