"""An evaluator of RBAC that shares nothing with the server: it computes who may do what from listed objects."""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

RBAC = "rbac.authorization.k8s.io"
VERBS = ("get", "list", "create", "update", "bind", "escalate", "impersonate", "head", "unheard-of")
RESOURCES = (
    ("", "configmaps"),
    ("", "secrets"),
    ("", "pods/log"),
    (RBAC, "clusterroles"),
    (RBAC, "roles"),
    (RBAC, "clusterrolebindings"),
    ("unheard-of", "unheard-of"),
)
NAMES = ("", "r0", "x")
NAMESPACES = ("", "a", "b")
PATHS = ("/metrics", "/metrics/slis", "/unheard-of")


class Right(NamedTuple):
    """One thing that a user may do."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def is_special(right: Right) -> bool:
    """Whether the right allows to grant what its holder does not hold."""
    return right.verb in {"bind", "escalate"} and (right.group, right.resource) in (
        (RBAC, "roles"),
        (RBAC, "clusterroles"),
    )


RESOURCE_RIGHTS = tuple(
    Right(verb, group, resource, namespace, name)
    for verb, (group, resource), namespace, name in product(VERBS, RESOURCES, NAMESPACES, NAMES)
)
PATH_RIGHTS = tuple(Right(verb, path=path) for verb, path in product(VERBS, PATHS))


class Listed(NamedTuple):
    """All RBAC objects of a server."""

    cluster_roles: list[dict]
    roles: list[dict]
    cluster_bindings: list[dict]
    bindings: list[dict]


def _labels_match(selector: dict, labels: dict) -> bool:
    for key, value in (selector.get("matchLabels") or {}).items():
        if key not in labels or labels[key] != value:
            return False
    for term in selector.get("matchExpressions") or []:
        key, values, present = term["key"], term.get("values") or [], term["key"] in labels
        wanted = {
            "In": present and labels.get(key) in values,
            "NotIn": not present or labels[key] not in values,
            "Exists": present,
            "DoesNotExist": not present,
        }
        if not wanted[term["operator"]]:
            return False
    return True


def _cluster_rules(listed: Listed) -> dict[str, list[dict]]:
    """The rules of every ClusterRole: rules are copied into aggregates until nothing changes."""
    found = {role["metadata"]["name"]: list(role.get("rules") or []) for role in listed.cluster_roles}
    labels = {role["metadata"]["name"]: role["metadata"].get("labels") or {} for role in listed.cluster_roles}
    changed = True
    while changed:
        changed = False
        for role in listed.cluster_roles:
            mine = found[role["metadata"]["name"]]
            for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []:
                for other, rules in list(found.items()):
                    fresh = (
                        [rule for rule in rules if rule not in mine] if _labels_match(selector, labels[other]) else []
                    )
                    mine += fresh
                    changed = changed or bool(fresh)
    return found


def _concerns(binding: dict, user: str) -> bool:
    subjects = binding.get("subjects") or []
    groups = {"system:authenticated"}
    return any(
        (subject["kind"] == "User" and subject["name"] == user)
        or (subject["kind"] == "Group" and subject["name"] in groups)
        for subject in subjects
    )


def _names_one_of(texts: Iterable[str], wanted: str) -> bool:
    return any(text in ("*", wanted) for text in texts)


def _grants(rule: dict, right: Right) -> bool:
    verbs = rule.get("verbs") or []
    if right.path:
        as_get = right.verb == "head" and _names_one_of(verbs, "get")
        patterns = rule.get("nonResourceURLs") or []
        reached = any(
            right.path.startswith(pattern[:-1]) if pattern.endswith("*") else right.path == pattern
            for pattern in patterns
        )
        return reached and (as_get or _names_one_of(verbs, right.verb))
    resources = list(rule.get("resources") or [])
    if "/" in right.resource:
        resources += ["*"] if "*/" + right.resource.split("/")[1] in resources else []
    names = rule.get("resourceNames") or []
    return (
        _names_one_of(verbs, right.verb)
        and _names_one_of(rule.get("apiGroups") or [], right.group)
        and _names_one_of(resources, right.resource)
        and (not names or right.name in names)
    )


def rights_of(user: str, listed: Listed) -> frozenset[Right]:
    """Everything of the universe that a user may do."""
    by_role = _cluster_rules(listed)
    everywhere = [
        rule
        for binding in listed.cluster_bindings
        if _concerns(binding, user)
        for rule in by_role.get(binding["roleRef"]["name"], [])
    ]
    return frozenset(_all_rights(everywhere, user, listed, by_role))


def _all_rights(everywhere: list[dict], user: str, listed: Listed, by_role: dict[str, list[dict]]) -> Iterator[Right]:
    inside: dict[str, list[dict]] = {namespace: [] for namespace in NAMESPACES}
    own = {(role["metadata"]["namespace"], role["metadata"]["name"]): role.get("rules") or [] for role in listed.roles}
    for binding in listed.bindings:
        namespace, reference = binding["metadata"]["namespace"], binding["roleRef"]
        if namespace in inside and _concerns(binding, user):
            by_kind = by_role.get(reference["name"], []), own.get((namespace, reference["name"]), [])
            inside[namespace] += by_kind[0] if reference["kind"] == "ClusterRole" else by_kind[1]
    for right in (*RESOURCE_RIGHTS, *PATH_RIGHTS):
        rules = everywhere if right.path else [*everywhere, *inside[right.namespace]]
        if any(_grants(rule, right) for rule in rules):
            yield right
