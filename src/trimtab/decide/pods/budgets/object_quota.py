"""What objects other than pods use of a ResourceQuota: their number, node ports, load balancers and storage."""

from collections.abc import Mapping
from typing import NamedTuple

from trimtab.api.quantity import int_value
from trimtab.api.value import Raw

_COUNTED_CORE = frozenset(
    ("configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services")
)
_STORAGE_CLASS = ".storageclass.storage.k8s.io/"
SERVICES, CLAIMS = "services", "persistentvolumeclaims"


class QuotaTarget(NamedTuple):
    """The resource whose objects a limit counts."""

    group: str
    resource: str

    @property
    def id(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


def target_of(limit: str) -> QuotaTarget | None:
    """The resource that a limit of a quota counts; None for limits on pods."""
    if limit.startswith("count/"):
        resource, _, group = limit.removeprefix("count/").partition(".")
        return QuotaTarget(group, resource) if (resource, group) != ("pods", "") else None
    if limit in _COUNTED_CORE:
        return QuotaTarget("", limit)
    if limit in ("services.nodeports", "services.loadbalancers"):
        return QuotaTarget("", SERVICES)
    if limit == "requests.storage" or _STORAGE_CLASS in limit:
        return QuotaTarget("", CLAIMS)
    return None


def object_limits(quota: Raw) -> dict[str, int]:
    """The limits on objects other than pods. A quota with scopes has none: scopes select pods."""
    spec = quota.get("spec") or {}
    if spec.get("scopes") or (spec.get("scopeSelector") or {}).get("matchExpressions"):
        return {}
    return {name: int_value(value) for name, value in (spec.get("hard") or {}).items() if target_of(name) is not None}


def use_of(limit: str, obj: Raw) -> int:
    """How much of a limit an object uses; the object is of the limit's resource."""
    if limit == "services.nodeports":
        return _node_ports(obj)
    if limit == "services.loadbalancers":
        return int((obj.get("spec") or {}).get("type") == "LoadBalancer")
    if limit == "requests.storage":
        return _requested_storage(obj)
    if _STORAGE_CLASS in limit:
        class_name, _, what = limit.partition(_STORAGE_CLASS)
        if (obj.get("spec") or {}).get("storageClassName") != class_name:
            return 0
        return _requested_storage(obj) if what == "requests.storage" else 1
    return 1


def _node_ports(service: Raw) -> int:
    spec = service.get("spec") or {}
    ports = spec.get("ports") or ()
    if spec.get("type") == "NodePort":
        return len(ports)
    if spec.get("type") != "LoadBalancer":
        return 0
    if spec.get("allocateLoadBalancerNodePorts") is False:
        return sum(1 for port in ports if port.get("nodePort"))
    return len(ports)


def _requested_storage(claim: Raw) -> int:
    requests: Mapping[str, str] = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return int_value(requests["storage"]) if "storage" in requests else 0
