"""Limits for the resources of a namespace (ResourceQuota) and of one object in it (LimitRange)."""

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import objects as objects_defaults
from trimtab.api.kinds.native.rules import quota
from trimtab.api.value import Object, QuantityText, Value


class ScopedResourceSelectorRequirement(Value):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Value):
    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Value):
    hard: dict[str, QuantityText] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Value):
    hard: dict[str, QuantityText] = {}
    used: dict[str, QuantityText] = {}


@kind(
    group="",
    version="v1",
    plural="resourcequotas",
    short=["quota"],
    status=True,
    custom=False,
    validators=[quota.check_resource_quota],
)
class ResourceQuota(Object):
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


@kind(
    group="",
    version="v1",
    plural="limitranges",
    short=["limits"],
    custom=False,
    defaults=[objects_defaults.limit_range],
    validators=[quota.check_limit_range],
)
class LimitRange(Object):
    """No typed fields: the server reads it raw."""
