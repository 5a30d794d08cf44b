"""The webhook configurations of `trimtab webhook`, generated from the table of enforcement.

Webhooks for Trimtab's, Karmada's and OCM's kinds have the failure policy Fail: without an answer nothing of them changes, and
nothing else is affected. Those for pods, evictions and priority classes have Ignore: without an answer pods start and end as in
a cluster without Trimtab. Every call is limited to three seconds, and the namespace of the webhook itself is exempt, so that it
can always start.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from trimtab.api.admission.enforcement import ENFORCEMENT, checked_kinds, filled_kinds
from trimtab.api.kind import Kind
from trimtab.api.value import Raw

NAME = "trimtab-webhook"
TIMEOUT_SECONDS = 3
DEFAULTS, CHECKS, REPLACEMENTS, LIMITED_PRIORITIES, EVICTIONS = (
    "/defaults",
    "/checks",
    "/replacements",
    "/limited-priorities",
    "/evictions",
)
_WRITES = ("CREATE", "UPDATE")
_OWNED_PODS = (
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o,"
    " has(o.controller) && o.controller && o.kind != 'DaemonSet')"
)
_PODS_WITH_PRIORITY = "has(object.spec.priorityClassName) && object.spec.priorityClassName != ''"
_NO_SYSTEM_PODS = "!(request.namespace in ['kube-system', 'kube-node-lease', 'kube-public'])"

ClientConfig = Callable[[str], Raw]
"""The `clientConfig` of the webhook at this path."""


class _ConfiguredWebhook(NamedTuple):
    name: str
    path: str
    rules: Sequence[Raw]
    fails_closed: bool = True
    conditions: Sequence[tuple[str, str]] = ()
    side_effects: str = "None"

    def to_wire(self, client_config: ClientConfig, own_namespace: str, **further: str) -> Raw:
        exempt = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [own_namespace]}
        hook: Raw = {
            "name": self.name,
            "clientConfig": client_config(self.path),
            "rules": list(self.rules),
            "failurePolicy": "Fail" if self.fails_closed else "Ignore",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": [exempt]},
            "sideEffects": self.side_effects,
            "timeoutSeconds": TIMEOUT_SECONDS,
            "admissionReviewVersions": ["v1"],
            **further,
        }
        if self.conditions:
            hook["matchConditions"] = [{"name": name, "expression": text} for name, text in self.conditions]
        return hook


def _rules(kinds: Iterable[Kind], operations: Sequence[str] = _WRITES) -> list[Raw]:
    groups: dict[str, list[str]] = {}
    for kind in kinds:
        groups.setdefault(kind.group, []).append(kind.plural)
    return [_rule(group, sorted(plurals), operations) for group, plurals in sorted(groups.items())]


def _rule(group: str, resources: Sequence[str], operations: Sequence[str]) -> Raw:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
        "scope": "*",
    }


def _mutating(kinds: Sequence[Kind], *, pods: bool) -> Iterator[_ConfiguredWebhook]:
    yield _ConfiguredWebhook("defaults.trimtab.dev", DEFAULTS, _rules(filled_kinds(kinds)))
    if pods:
        yield _ConfiguredWebhook(
            "replacements.trimtab.dev",
            REPLACEMENTS,
            [_rule("", ["pods"], ["CREATE"])],
            fails_closed=False,
            conditions=[("owned-pods", _OWNED_PODS), ("no-system-pods", _NO_SYSTEM_PODS)],
        )


def _validating(kinds: Sequence[Kind], *, pods: bool) -> Iterator[_ConfiguredWebhook]:
    checked = checked_kinds(kinds)
    yield _ConfiguredWebhook(
        "checks.trimtab.dev", CHECKS, _rules(one for one in checked if not ENFORCEMENT[one.id].condition)
    )
    conditional: dict[str, list[Kind]] = {}
    for kind in checked:
        if condition := ENFORCEMENT[kind.id].condition:
            conditional.setdefault(condition, []).append(kind)
    for condition, found in conditional.items():
        name = f"{min(kind.plural for kind in found)}.checks.trimtab.dev"
        yield _ConfiguredWebhook(name, CHECKS, _rules(found), conditions=[("has-checked-field", condition)])
    yield _ConfiguredWebhook(
        "priorities.trimtab.dev",
        CHECKS,
        [_rule("scheduling.k8s.io", ["priorityclasses"], _WRITES)],
        fails_closed=False,
    )
    if pods:
        yield _ConfiguredWebhook(
            "limited-priorities.trimtab.dev",
            LIMITED_PRIORITIES,
            [_rule("", ["pods"], ["CREATE"])],
            fails_closed=False,
            conditions=[("has-priority", _PODS_WITH_PRIORITY), ("no-system-pods", _NO_SYSTEM_PODS)],
        )
        yield _ConfiguredWebhook(
            "evictions.trimtab.dev",
            EVICTIONS,
            [_rule("", ["pods/eviction"], ["CREATE"])],
            fails_closed=False,
            conditions=[("no-system-pods", _NO_SYSTEM_PODS)],
            side_effects="NoneOnDryRun",
        )


def webhook_configurations(
    kinds: Sequence[Kind], client_config: ClientConfig, *, namespace: str, name: str = NAME, pods: bool = True
) -> list[Raw]:
    """The mutating and the validating configuration; `pods`: pods and evictions of this cluster are admitted as well."""
    mutating = [
        hook.to_wire(client_config, namespace, reinvocationPolicy="IfNeeded") for hook in _mutating(kinds, pods=pods)
    ]
    validating = [hook.to_wire(client_config, namespace) for hook in _validating(kinds, pods=pods)]
    return [
        _configuration("MutatingWebhookConfiguration", name, mutating),
        _configuration("ValidatingWebhookConfiguration", name, validating),
    ]


def _configuration(kind: str, name: str, hooks: list[Raw]) -> Raw:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": hooks,
    }
