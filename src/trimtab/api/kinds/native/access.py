"""RBAC kinds: roles and the bindings that grant them."""

import msgspec

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import objects as objects_defaults
from trimtab.api.kinds.native.rules import access
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Object, Value

_GROUP = "rbac.authorization.k8s.io"


class PolicyRule(Value):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class AggregationRule(Value):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class RoleRef(Value):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class Subject(Value):
    kind: str = ""
    api_group: str = ""
    name: str = ""
    namespace: str = ""


@kind(group=_GROUP, version="v1", plural="roles", custom=False, validators=[access.check_role])
class Role(Object):
    rules: tuple[PolicyRule, ...] | None = ()


@kind(
    group=_GROUP,
    version="v1",
    plural="clusterroles",
    namespaced=False,
    custom=False,
    validators=[access.check_cluster_role],
)
class ClusterRole(Object):
    rules: tuple[PolicyRule, ...] | None = ()
    aggregation_rule: AggregationRule | None = None


@kind(
    group=_GROUP,
    version="v1",
    plural="rolebindings",
    custom=False,
    defaults=[objects_defaults.role_binding],
    validators=[access.check_role_binding],
)
class RoleBinding(Object):
    subjects: tuple[Subject, ...] = ()
    role_ref: RoleRef = RoleRef()


@kind(
    group=_GROUP,
    version="v1",
    plural="clusterrolebindings",
    namespaced=False,
    custom=False,
    defaults=[objects_defaults.role_binding],
    validators=[access.check_cluster_role_binding],
)
class ClusterRoleBinding(Object):
    subjects: tuple[Subject, ...] = ()
    role_ref: RoleRef = RoleRef()
