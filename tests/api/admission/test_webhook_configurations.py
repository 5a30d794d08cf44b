"""The webhook configurations follow the table of enforcement and are safe when no webhook answers."""

from trimtab.api.admission.enforcement import ENFORCEMENT, filled_kinds
from trimtab.api.admission.webhook_configurations import webhook_configurations
from trimtab.api.value import Raw
from trimtab.cli.commands.crds import custom_kinds
from trimtab.server.admission.peer_webhooks import PERMANENT_IDS

KINDS = custom_kinds()
MUTATING, VALIDATING = (
    {hook["name"]: hook for hook in one["webhooks"]}
    for one in webhook_configurations(KINDS, lambda path: {"url": f"https://w{path}"}, namespace="trimtab-system")
)
FOREIGN_GROUPS = {"", "scheduling.k8s.io"}


def resources_of(*hooks: Raw) -> set[str]:
    return {
        f"{plural}.{group}"
        for hook in hooks
        for rule in hook["rules"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }


def test_every_kind_with_checks_for_the_webhook_is_sent_to_it() -> None:
    checking = [hook for name, hook in VALIDATING.items() if hook["failurePolicy"] == "Fail"]
    assert resources_of(*checking) == {name for name, entry in ENFORCEMENT.items() if entry.webhook}


def test_every_kind_with_defaults_is_sent_to_it() -> None:
    filled = resources_of(MUTATING["defaults.trimtab.dev"])
    assert filled == {kind.id for kind in filled_kinds(KINDS)}
    assert set(PERMANENT_IDS) <= filled


def test_kinds_of_others_are_never_blocked() -> None:
    for hook in (*MUTATING.values(), *VALIDATING.values()):
        groups = {group for rule in hook["rules"] for group in rule["apiGroups"]}
        assert hook["failurePolicy"] == ("Ignore" if groups & FOREIGN_GROUPS else "Fail")
        assert "*" not in groups


def test_calls_are_short_and_the_own_namespace_is_exempt() -> None:
    for hook in (*MUTATING.values(), *VALIDATING.values()):
        assert hook["timeoutSeconds"] == 3
        (exempt,) = hook["namespaceSelector"]["matchExpressions"]
        assert (exempt["operator"], exempt["values"]) == ("NotIn", ["trimtab-system"])


def test_only_the_eviction_gate_has_side_effects_and_none_on_dry_run() -> None:
    effects = {name: hook["sideEffects"] for name, hook in {**MUTATING, **VALIDATING}.items()}
    assert effects.pop("evictions.trimtab.dev") == "NoneOnDryRun"
    assert set(effects.values()) == {"None"}


def test_pods_can_be_left_out() -> None:
    found = webhook_configurations(KINDS, lambda path: {"url": path}, namespace="n", pods=False)
    assert not any("pods" in resource for one in found for resource in resources_of(*one["webhooks"]))


def test_every_webhook_has_its_own_name() -> None:
    assert len({**MUTATING, **VALIDATING}) == len(MUTATING) + len(VALIDATING)
