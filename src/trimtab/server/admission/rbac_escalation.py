"""Prevents privilege escalation: a role or binding may grant only what its author may do."""

from collections.abc import Iterator
from itertools import product

import orjson

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.auth.authorize import GROUP, RBAC_PREFIX, Action, Authorizer
from trimtab.server.auth.user import MASTERS, User
from trimtab.store.store import Store

_ROLES = {"Role", "ClusterRole"}
_BINDINGS = {"RoleBinding", "ClusterRoleBinding"}


class RbacEscalation:
    """The admission plugin for RBAC objects."""

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.group == GROUP

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        where = attributes.where
        served, namespace, name = where.served, where.namespace, where.name
        user = attributes.caller.user
        if obj is None or MASTERS in user.groups:
            return
        kind = served.kind.name
        if kind in _ROLES:
            if old is not None and old.get("rules") == obj.get("rules"):
                return
            action = Action("escalate", GROUP, served.resource, "", namespace, name)
            rules = obj.get("rules") or []
        elif kind in _BINDINGS:
            reference = obj.get("roleRef") or {}
            resource = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
            action = Action("bind", GROUP, resource, "", namespace, reference.get("name", ""))
            rules = self._rules_of(reference, namespace)
        else:
            return
        if not self._authorizer.allows(user, action):
            self._check_rules(user, rules, attributes)

    def _rules_of(self, reference: Raw, namespace: str) -> list[Raw]:
        if reference.get("kind") == "ClusterRole":
            key = f"{RBAC_PREFIX}clusterroles/{reference.get('name')}"
        else:
            key = f"{RBAC_PREFIX}roles/{namespace}/{reference.get('name')}"
        entry = self._store.get(key)
        return orjson.loads(entry.value).get("rules") or [] if entry else []

    def _check_rules(self, user: User, rules: list[Raw], attributes: Attributes) -> None:
        where = attributes.where
        served, namespace, name = where.served, where.namespace, where.name
        missing = [
            action
            for rule in rules
            for action in _actions_of(rule, namespace)
            if not self._authorizer.allows(user, action)
        ]
        if missing:
            groups = " ".join(f'"{group}"' for group in user.groups)
            missing_text = "\n".join(dict.fromkeys(_format_action(action) for action in missing))
            why = (
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
                f"{missing_text}"
            )
            raise api_errors.forbidden(served.resource, served.group, name, why)


def _actions_of(rule: Raw, namespace: str) -> Iterator[Action]:
    """Every single action that a rule allows; `*` is checked literally."""
    verbs = rule.get("verbs") or ()
    for verb, path in product(verbs, rule.get("nonResourceURLs") or ()):
        yield Action(verb, path=path)
    names = rule.get("resourceNames") or ("",)
    parts = product(verbs, rule.get("apiGroups") or (), rule.get("resources") or (), names)
    for verb, group, resource, name in parts:
        parent, _, sub = resource.partition("/")
        yield Action(verb, group, parent, sub, namespace, name)


def _format_action(action: Action) -> str:
    if action.path:
        return f'{{NonResourceURLs:["{action.path}"], Verbs:["{action.verb}"]}}'
    group, resource, verb = action.group, action.full_resource, action.verb
    return f'{{APIGroups:["{group}"], Resources:["{resource}"], Verbs:["{verb}"]}}'
