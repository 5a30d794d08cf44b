"""ValidatingAdmissionPolicies: checks that the rules of a CRD cannot express.

A rule of a CRD sees no labels and no namespace, cannot compare pairs in a list without a bound, and sees nothing of fields
with any content. An admission policy sees the whole object, and its cost counts only when it runs.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimtab.api.kind import Kind
from trimtab.api.value import Raw

PROTECTED_LABEL = "resourcetemplate.karmada.io/deletion-protected"
PERMANENT_ID_LABELS = ("propagationpolicy.karmada.io/permanent-id", "clusterpropagationpolicy.karmada.io/permanent-id")
_NAME = "(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])"
_LABEL_KEY = f"^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?{_NAME}$"
_ANNOTATION_KEY = f"^([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*/)?{_NAME}$"
_NOT_LEAVING = "!has(object.metadata.deletionTimestamp)"


class Check(NamedTuple):
    """One validation of a policy."""

    expression: str
    message: str


class Policy(NamedTuple):
    """A policy for some kinds."""

    name: str
    kinds: tuple[str, ...]
    checks: tuple[Check, ...]
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    variables: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    """The labels that select its objects; a policy with labels and without kinds is for every kind."""


def _fixed_label(label: str) -> Check:
    old, new = "oldObject.metadata.labels", "object.metadata.labels"
    return Check(
        f"!has({old}) || !('{label}' in {old})"
        f" || (has({new}) && '{label}' in {new} && {new}['{label}'] == {old}['{label}'])",
        f"label {label} is immutable, it can only be set by the system during creation",
    )


def _unique(path: str, *keys: str) -> str:
    """A list, if it exists, has each combination of these keys once."""
    parent, _, name = path.rpartition(".")
    same = " && ".join(f"other.{key} == one.{key}" for key in keys)
    return f"!has({parent}.{name}) || {path}.all(one, {path}.exists_one(other, {same}))"


def _each(path: str, item: str, condition: str) -> str:
    """A condition for every item of a list that may be absent."""
    return f"(!has({path}) || {path}.all({item}, {condition}))"


def _key_check(field: str, pattern: str) -> str:
    keys = f"l.value.all(k, size(k) <= 317 && k.matches('{pattern}'))"
    return f"variables.overriders.all(o, {_each(f'o.{field}', 'l', keys)})"


def _field_check(condition: str) -> str:
    return f"variables.overriders.all(o, {_each('o.fieldOverrider', 'f', condition)})"


def _operations(field: str) -> str:
    has_value = "(has(p.value) && p.value != null)"
    return _each(f"f.{field}", "p", f"(p.operator == 'remove') != {has_value}")


_POLICIES, _CLUSTER_POLICIES = "propagationpolicies.policy.karmada.io", "clusterpropagationpolicies.policy.karmada.io"
_OVERRIDES, _CLUSTER_OVERRIDES = "overridepolicies.policy.karmada.io", "clusteroverridepolicies.policy.karmada.io"

ADMISSION_POLICIES: Sequence[Policy] = (
    Policy(
        "permanent-id.policy.karmada.io",
        (_POLICIES, _CLUSTER_POLICIES),
        tuple(map(_fixed_label, PERMANENT_ID_LABELS)),
        operations=("UPDATE",),
    ),
    Policy(
        "selector-namespace.policy.karmada.io",
        (_POLICIES, _OVERRIDES),
        (
            Check(
                _each(
                    "object.spec.resourceSelectors",
                    "s",
                    "!has(s.namespace) || s.namespace == '' || s.namespace == object.metadata.namespace",
                ),
                "the namespace of resourceSelector should be the same as the policy's namespace",
            ),
        ),
    ),
    Policy(
        "overriders.policy.karmada.io",
        (_OVERRIDES, _CLUSTER_OVERRIDES),
        (
            Check(_key_check("labelsOverrider", _LABEL_KEY), "labelsOverrider: a key is not a qualified name"),
            Check(
                _key_check("annotationsOverrider", _ANNOTATION_KEY),
                "annotationsOverrider: a key is not a qualified name",
            ),
            Check(
                _field_check("(has(f.json) && size(f.json) > 0) != (has(f.yaml) && size(f.yaml) > 0)"),
                "fieldOverrider: one of json and yaml must be set",
            ),
            Check(
                _field_check(f"{_operations('json')} && {_operations('yaml')}"),
                "fieldOverrider: value is required for add or replace operation, and not allowed for remove operation",
            ),
        ),
        variables=(
            (
                "overriders",
                (
                    "(has(object.spec.overriders) ? [object.spec.overriders] : [])"
                    " + (has(object.spec.overrideRules) ? object.spec.overrideRules.map(r, r.overriders) : [])"
                ),
            ),
        ),
    ),
    Policy(
        "unique-taints.policy.karmada.io",
        ("clustertaintpolicies.policy.karmada.io",),
        (Check(_unique("object.spec.taints", "key", "effect"), "each key may be listed once per effect"),),
    ),
    Policy(
        "unique-clusters.networking.karmada.io",
        ("multiclusterservices.networking.karmada.io",),
        tuple(
            Check(_unique(f"object.spec.{field}", "name"), f"{field}: each cluster may be listed once")
            for field in ("providerClusters", "consumerClusters")
        ),
    ),
    Policy(
        "unique-components.work.karmada.io",
        ("resourcebindings.work.karmada.io", "clusterresourcebindings.work.karmada.io"),
        (Check(_unique("object.spec.components", "name"), "components: each name may be listed once"),),
    ),
    Policy(
        "deletion-protection.trimtab.dev",
        (),
        (
            Check(
                "false",
                f"This resource is protected, please make sure to remove the label: {PROTECTED_LABEL}",
            ),
        ),
        operations=("DELETE",),
        labels=((PROTECTED_LABEL, "Always"),),
    ),
)


def policy_objects(kinds: Sequence[Kind]) -> Iterator[Raw]:
    """The policies for these kinds, each followed by its binding."""
    for policy in ADMISSION_POLICIES:
        chosen = [kind for kind in kinds if kind.id in policy.kinds]
        if chosen or not policy.kinds:
            yield _policy_object(policy, chosen)
            yield {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": policy.name},
                "spec": {"policyName": policy.name, "validationActions": ["Deny"]},
            }


def _policy_object(policy: Policy, chosen: Sequence[Kind]) -> Raw:
    groups: dict[str, list[str]] = {}
    for kind in chosen:
        groups.setdefault(kind.group, []).append(kind.plural)
    rules = [_rule(policy, group, sorted(plurals)) for group, plurals in sorted(groups.items())]
    match: Raw = {"matchPolicy": "Equivalent", "resourceRules": rules or [_rule(policy, "*", ["*"])]}
    if policy.labels:
        match["objectSelector"] = {"matchLabels": dict(policy.labels)}
    spec: Raw = {"failurePolicy": "Fail", "matchConstraints": match}
    if "DELETE" not in policy.operations:  # the finalizers of an object that is being deleted can always be removed
        spec["matchConditions"] = [{"name": "not-being-deleted", "expression": _NOT_LEAVING}]
    if policy.variables:
        spec["variables"] = [{"name": name, "expression": expression} for name, expression in policy.variables]
    spec["validations"] = [
        {"expression": check.expression, "message": check.message, "reason": "Forbidden"} for check in policy.checks
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": policy.name},
        "spec": spec,
    }


def _rule(policy: Policy, group: str, plurals: Sequence[str]) -> Raw:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": list(policy.operations),
        "resources": list(plurals),
    }
