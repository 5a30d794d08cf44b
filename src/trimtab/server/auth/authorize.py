"""Role-based access control over the roles and bindings in the store."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import orjson

from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement
from trimtab.api.value import Raw
from trimtab.server.auth.user import MASTERS, User
from trimtab.store.store import Store

GROUP = "rbac.authorization.k8s.io"
RBAC_PREFIX = f"/registry/{GROUP}/"
_CACHE_LIMIT = 20_000


class Action(NamedTuple):
    """A verb on a resource or on a non-resource path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def _covers(allowed: Sequence[str], wanted: str) -> bool:
    return "*" in allowed or wanted in allowed


def _covers_resource(rule: Raw, action: Action) -> bool:
    resources = rule.get("resources") or ()
    full = action.full_resource
    if "*" in resources or full in resources:
        return True
    return bool(action.subresource) and f"*/{action.subresource}" in resources


def _covers_path(patterns: Iterable[str], path: str) -> bool:
    return any(p in {"*", path} or (p.endswith("*") and path.startswith(p[:-1])) for p in patterns)


def rule_allows(rule: Raw, action: Action) -> bool:
    if not _covers(rule.get("verbs") or (), action.verb):
        return False
    if action.path:
        return _covers_path(rule.get("nonResourceURLs") or (), action.path)
    if not _covers(rule.get("apiGroups") or (), action.group) or not _covers_resource(rule, action):
        return False
    names = rule.get("resourceNames") or ()
    return not names or action.name in names


def _is_subject(subject: Raw, user: User, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return bool(name == user.name)
    if kind == "Group":
        return name in user.groups
    place = subject.get("namespace") or namespace
    return kind == "ServiceAccount" and user.name == f"system:serviceaccount:{place}:{name}"


class Authorizer:
    """Decides with RBAC and caches decisions until a role or binding changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decisions: dict[tuple[User, Action], bool] = {}

    def invalidate(self) -> None:
        """Clear the cache after a role or binding changed."""
        self._decisions.clear()

    def allows(self, user: User, action: Action) -> bool:
        if MASTERS in user.groups:
            return True
        key = (user, action)
        allowed = self._decisions.get(key)
        if allowed is None:
            if len(self._decisions) > _CACHE_LIMIT:
                self._decisions.clear()
            rules = self.rules_for(user, action.namespace)
            allowed = self._decisions[key] = any(rule_allows(rule, action) for rule in rules)
        return allowed

    def rules_for(self, user: User, namespace: str) -> Iterator[Raw]:
        """Every rule that applies to the user, cluster-wide and in the namespace."""
        yield from self._rules_from_bindings(user, "clusterrolebindings", "")
        if namespace:
            yield from self._rules_from_bindings(user, "rolebindings", namespace)

    def _rules_from_bindings(self, user: User, resource: str, namespace: str) -> Iterator[Raw]:
        prefix = f"{RBAC_PREFIX}{resource}/{namespace}/" if namespace else f"{RBAC_PREFIX}{resource}/"
        for entry in self._store.list(prefix).entries:
            binding = orjson.loads(entry.value)
            if any(_is_subject(subject, user, namespace) for subject in binding.get("subjects") or ()):
                yield from self._role_rules(binding["roleRef"], namespace)

    def _role_rules(self, reference: Raw, namespace: str) -> Iterator[Raw]:
        if reference["kind"] == "ClusterRole":
            key = f"{RBAC_PREFIX}clusterroles/{reference['name']}"
        else:
            key = f"{RBAC_PREFIX}roles/{namespace}/{reference['name']}"
        entry = self._store.get(key)
        if entry is None:
            return
        role = orjson.loads(entry.value)
        yield from role.get("rules") or ()
        for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
            yield from self._aggregated_rules(selector, key)

    def _aggregated_rules(self, selector: Raw, own_key: str) -> Iterator[Raw]:
        wanted = LabelSelector(
            match_labels=selector.get("matchLabels") or {},
            match_expressions=tuple(
                LabelSelectorRequirement(
                    key=rule["key"], operator=rule["operator"], values=tuple(rule.get("values") or ())
                )
                for rule in selector.get("matchExpressions") or ()
            ),
        )
        for entry in self._store.list(f"{RBAC_PREFIX}clusterroles/").entries:
            role = orjson.loads(entry.value)
            if entry.key != own_key and wanted.matches(role["metadata"].get("labels") or {}):
                yield from role.get("rules") or ()


def denial_message(user: User, action: Action) -> str:
    """The message of a denied request, as Kubernetes words it."""
    if action.path:
        return f'User "{user.name}" cannot {action.verb} path "{action.path}"'
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    return f'User "{user.name}" cannot {action.verb} resource "{action.full_resource}" in API group "{action.group}" {where}'
