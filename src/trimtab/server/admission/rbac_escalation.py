"""Prevents privilege escalation: a role or binding may grant only what its author may do."""

from collections.abc import Sequence

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.errors import Forbidden
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.auth.authorize import GROUP, Action, Authorizer
from trimtab.server.auth.roles import Roles, aggregates_of, resulting_rules
from trimtab.server.auth.rule_coverage import TooManyCombinations, missing_actions
from trimtab.server.auth.user import MASTERS, User

_BINDINGS = {"RoleBinding", "ClusterRoleBinding"}
_DELETION_FIELDS = {"finalizers", "ownerReferences", "managedFields", "resourceVersion"}
"""Metadata that garbage collection needs and that grants nothing."""
_EVERYTHING: list[Raw] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]
_MAX_LINES = 50
"""Missing permissions that a message lists."""


class RbacEscalation:
    """The admission plugin for RBAC objects.

    Whoever writes a role must hold all rules that it results in, aggregated ones included. Whoever sets, changes or
    removes an aggregation rule must hold everything, because it may select any role. The verbs `escalate` on a role
    and `bind` on the role of a binding replace this.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.group == GROUP

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        if obj is None or MASTERS in attributes.caller.user.groups:
            return
        if old is not None and _without_deletion_fields(obj) == _without_deletion_fields(old):
            return
        kind = attributes.where.served.kind.name
        if kind in _BINDINGS:
            self._check_binding(attributes, obj)
        elif kind == "ClusterRole":
            self._check_cluster_role(attributes, obj, old)
        elif not self._may_escalate(attributes, attributes.where.name):
            self._check_held(attributes, obj.get("rules") or [])

    def _check_binding(self, attributes: Attributes, obj: Raw) -> None:
        reference, namespace = obj.get("roleRef") or {}, attributes.where.namespace
        name = reference.get("name", "")
        resource = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
        if self._authorizer.allows(attributes.caller.user, Action("bind", GROUP, resource, "", namespace, name)):
            return
        rules = self._authorizer.rules_of(reference, namespace)
        if rules is None:
            raise api_errors.not_found(resource, GROUP, name)
        self._check_held(attributes, rules)

    def _check_cluster_role(self, attributes: Attributes, obj: Raw, old: Raw | None) -> None:
        name, before = attributes.where.name, self._authorizer.cluster_roles()
        after = {**before, name: obj}
        if self._may_escalate(attributes, name):
            self._check_aggregates(attributes, before, after)
            return
        aggregates = bool(obj.get("aggregationRule") or (old or {}).get("aggregationRule"))
        self._check_held(attributes, [*resulting_rules(name, after), *(_EVERYTHING if aggregates else ())])

    def _check_aggregates(self, attributes: Attributes, before: Roles, after: Roles) -> None:
        """Check what other roles gain by aggregating this one: `escalate` on this role is not `escalate` on them."""
        for aggregate in aggregates_of(attributes.where.name, after):
            if self._may_escalate(attributes, aggregate):
                continue
            way = f' through the aggregating ClusterRole "{aggregate}"'
            self._check_held(attributes, resulting_rules(aggregate, after), resulting_rules(aggregate, before), way)

    def _may_escalate(self, attributes: Attributes, name: str) -> bool:
        where = attributes.where
        action = Action("escalate", GROUP, where.served.resource, "", where.namespace, name)
        return self._authorizer.allows(attributes.caller.user, action)

    def _check_held(
        self, attributes: Attributes, granted: Sequence[Raw], granted_before: Sequence[Raw] = (), way: str = ""
    ) -> None:
        user = attributes.caller.user
        try:
            held = list(self._authorizer.rules_for(user, attributes.where.namespace))
            missing = missing_actions([*held, *granted_before], granted)
        except TooManyCombinations:
            why = "the rules have too many combinations of verbs, groups, resources and names to be compared; "
            raise _refusal(attributes, user, f"{why}split them into several roles with fewer") from None
        if missing:
            lines = [_format_action(action) for action in missing[:_MAX_LINES]]
            if len(missing) > _MAX_LINES:
                lines.append(f"and {len(missing) - _MAX_LINES} more")
            why = f"is attempting to grant RBAC permissions not currently held{way}:\n"
            raise _refusal(attributes, user, why + "\n".join(lines))


def _refusal(attributes: Attributes, user: User, why: str) -> Forbidden:
    served, name = attributes.where.served, attributes.where.name
    groups = " ".join(f'"{group}"' for group in user.groups)
    text = f'user "{user.name}" (groups=[{groups}]) {why}'
    return api_errors.forbidden(served.resource, served.group, name, text)


def _without_deletion_fields(obj: Raw) -> Raw:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _DELETION_FIELDS}
    return {**obj, "metadata": metadata}


def _format_action(action: Action) -> str:
    if action.path:
        return f'{{NonResourceURLs:["{action.path}"], Verbs:["{action.verb}"]}}'
    names = f', ResourceNames:["{action.name}"]' if action.name else ""
    return f'{{APIGroups:["{action.group}"], Resources:["{action.full_resource}"]{names}, Verbs:["{action.verb}"]}}'
