"""What kube-apiserver rejects in roles and role bindings."""

from collections.abc import Iterator, Sequence

from trimtab.api.field_errors import invalid, not_supported, required
from trimtab.api.kinds.native.rules.common import check_selector
from trimtab.api.names import subdomain_faults
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_GROUP = "rbac.authorization.k8s.io"


def _check_rule(rule: Raw, field: str, *, namespaced: bool) -> Iterator[Cause]:
    if not rule.get("verbs"):
        yield required(f"{field}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs") or []
    if urls:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            yield invalid(f"{field}.nonResourceURLs", urls, text)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{field}.nonResourceURLs", urls, text)
        return
    if not rule.get("apiGroups"):
        yield required(f"{field}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{field}.resources", "resource rules must supply at least one resource")


def _check_rules(new: Raw, *, namespaced: bool) -> list[Cause]:
    found: list[Cause] = []
    for index, rule in enumerate(new.get("rules") or ()):
        found += _check_rule(rule, f"rules[{index}]", namespaced=namespaced)
    return found


def check_role(new: Raw, old: Raw | None) -> Sequence[Cause]:
    return _check_rules(new, namespaced=True)


def check_cluster_role(new: Raw, old: Raw | None) -> Sequence[Cause]:
    found = _check_rules(new, namespaced=False)
    aggregation = new.get("aggregationRule")
    if aggregation is not None and not aggregation.get("clusterRoleSelectors"):
        found.append(
            required(
                "aggregationRule.clusterRoleSelectors",
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            )
        )
    for index, selector in enumerate((aggregation or {}).get("clusterRoleSelectors") or ()):
        found += check_selector(selector, f"aggregationRule.clusterRoleSelectors[{index}]")
    return found


def _check_binding(new: Raw, old: Raw | None, role_kinds: Sequence[str]) -> Iterator[Cause]:
    ref = object_at(new, "roleRef")
    if ref.get("apiGroup") != _GROUP:
        yield not_supported("roleRef.apiGroup", ref.get("apiGroup", ""), [_GROUP])
    if ref.get("kind") not in role_kinds:
        yield not_supported("roleRef.kind", ref.get("kind", ""), role_kinds)
    if not ref.get("name"):
        yield required("roleRef.name")
    for index, subject in enumerate(new.get("subjects") or ()):
        yield from _check_subject(subject, f"subjects[{index}]", namespaced="Role" in role_kinds)
    if old is not None and ref != object_at(old, "roleRef"):
        go_ref = {"APIGroup": ref.get("apiGroup", ""), "Kind": ref.get("kind", ""), "Name": ref.get("name", "")}
        yield invalid("roleRef", go_ref, "cannot change roleRef")


def _check_subject(subject: Raw, field: str, *, namespaced: bool) -> Iterator[Cause]:
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    if not name:
        yield required(f"{field}.name")
    if kind == "ServiceAccount":
        for fault in subdomain_faults(name) if name else ():
            yield invalid(f"{field}.name", name, fault)
        if group:
            yield not_supported(f"{field}.apiGroup", group, [""])
        if not subject.get("namespace") and not namespaced:
            yield required(f"{field}.namespace")
    elif kind in ("User", "Group"):
        if group != _GROUP:
            yield not_supported(f"{field}.apiGroup", group, [_GROUP])
    else:
        yield not_supported(f"{field}.kind", kind, ["ServiceAccount", "User", "Group"])


def check_role_binding(new: Raw, old: Raw | None) -> Sequence[Cause]:
    return list(_check_binding(new, old, ("Role", "ClusterRole")))


def check_cluster_role_binding(new: Raw, old: Raw | None) -> Sequence[Cause]:
    return list(_check_binding(new, old, ("ClusterRole",)))
