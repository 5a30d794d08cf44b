"""Role-based access control over the roles and bindings in the store."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.server.auth.decision_cache import DecisionCache
from trimtab.server.auth.node_authorizer import NodeRequest, is_allowed_to_node, node_of
from trimtab.server.auth.roles import resulting_rules
from trimtab.server.auth.user import MASTERS, User
from trimtab.store.decoded_entries import DecodedEntries
from trimtab.store.keys import group_prefix, namespace_below, object_key, resource_prefix
from trimtab.store.store import Store

GROUP = "rbac.authorization.k8s.io"
RBAC_PREFIX = group_prefix(GROUP)
_ROLE_BINDINGS = resource_prefix(GROUP, "rolebindings")


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
    verbs = rule.get("verbs") or ()
    if action.path and action.verb == "head" and "get" in verbs:  # HEAD is a GET without a body
        return _covers_path(rule.get("nonResourceURLs") or (), action.path)
    if not _covers(verbs, action.verb):
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
    return kind == "ServiceAccount" and bool(place) and user.name == f"system:serviceaccount:{place}:{name}"


class Authorizer:
    """Decides with RBAC and caches decisions until a role or binding changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decisions = DecisionCache()
        self._decoded = DecodedEntries()
        self._cluster_roles: dict[str, Raw] | None = None
        self._cluster_bindings: list[Raw] | None = None
        self._resulting_rules: dict[str, list[Raw]] = {}

    def invalidate(self) -> None:
        """Clear the caches after a role or binding changed."""
        self._decisions.clear()
        self._cluster_roles = self._cluster_bindings = None
        self._resulting_rules.clear()

    @property
    def cached_bytes(self) -> int:
        """An upper bound of the bytes of all cached decisions."""
        return self._decisions.size

    def allows(self, user: User, action: Action) -> bool:
        if MASTERS in user.groups:
            return True
        allowed = self._decisions.get(user, action)
        if allowed is None:
            allowed = any(rule_allows(rule, action) for rule in self.rules_for(user, action.namespace))
            self._decisions.add(user, action, allowed)
        return allowed or self._allows_node(user, action)

    def _allows_node(self, user: User, action: Action) -> bool:
        """Whether the user is a kubelet that may do this with its node, its pods and what they use."""
        node = node_of(user)
        wanted = NodeRequest(
            action.verb, action.group, action.resource, action.subresource, action.namespace, action.name
        )
        return bool(node) and is_allowed_to_node(self._store, node, wanted)

    def rules_for(self, user: User, namespace: str) -> Iterator[Raw]:
        """Every rule that applies to the user, cluster-wide and in the namespace."""
        if self._cluster_bindings is None:
            self._cluster_bindings = self._read_bindings(resource_prefix(GROUP, "clusterrolebindings"))
        bindings = self._cluster_bindings
        yield from self._rules_from_bindings(bindings, user, "")
        if namespace:
            bindings = self._read_bindings(namespace_below(_ROLE_BINDINGS, namespace))
            yield from self._rules_from_bindings(bindings, user, namespace)

    def _read_bindings(self, prefix: str) -> list[Raw]:
        return [self._decoded.decode(entry) for entry in self._store.list(prefix).entries]

    def _rules_from_bindings(self, bindings: Iterable[Raw], user: User, namespace: str) -> Iterator[Raw]:
        bound: set[tuple[str, str]] = set()
        for binding in bindings:
            reference = binding["roleRef"]
            role = reference.get("kind", ""), reference.get("name", "")
            if role not in bound and any(
                _is_subject(subject, user, namespace) for subject in binding.get("subjects") or ()
            ):
                bound.add(role)
                yield from self.rules_of(reference, namespace) or ()

    def cluster_roles(self) -> dict[str, Raw]:
        """All stored ClusterRoles by name; not to be changed."""
        if self._cluster_roles is None:
            prefix = resource_prefix(GROUP, "clusterroles")
            entries = self._store.list(prefix).entries
            self._cluster_roles = {entry.key.removeprefix(prefix): self._decoded.decode(entry) for entry in entries}
        return self._cluster_roles

    def rules_of(self, reference: Raw, namespace: str) -> Sequence[Raw] | None:
        """The rules that a roleRef results in, aggregated ones included; None when the role does not exist."""
        name = reference.get("name", "")
        if reference.get("kind") == "ClusterRole":
            roles = self.cluster_roles()
            if name not in roles:
                return None
            if name not in self._resulting_rules:
                self._resulting_rules[name] = resulting_rules(name, roles)
            return self._resulting_rules[name]
        entry = self._store.get(object_key(GROUP, "roles", namespace, name))
        return self._decoded.decode(entry).get("rules") or [] if entry else None


def denial_message(user: User, action: Action) -> str:
    """The message of a denied request, as Kubernetes words it."""
    if action.path:
        return f'User "{user.name}" cannot {action.verb} path "{action.path}"'
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    return f'User "{user.name}" cannot {action.verb} resource "{action.full_resource}" in API group "{action.group}" {where}'
