"""Defaults of admission webhooks are set where no webhook is installed."""

from views import FakeView

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import PropagationPolicy
from trimtab.api.value import Raw
from trimtab.controllers.contract import Ensure
from trimtab.controllers.propagation.webhook_defaults import webhook_defaults

SELECTOR = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def policy(**spec: object) -> Raw:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"namespace": "shop", "name": "everywhere"},
        "spec": {"resourceSelectors": [SELECTOR], **spec},
    }


def defaulted(raw: Raw) -> list[Raw]:
    thing = kind_of(PropagationPolicy).decode(raw)
    effects = list(webhook_defaults(thing, FakeView(raws=[raw])))
    return [effect.wanted for effect in effects if isinstance(effect, Ensure)]


def test_selector_gets_namespace_of_policy() -> None:
    (made,) = defaulted(policy())
    assert made["spec"]["resourceSelectors"] == [SELECTOR | {"namespace": "shop"}]


def test_explicit_fields_are_kept() -> None:
    (made,) = defaulted(policy(propagateDeps=False, failover={"application": {"decisionConditions": {}}}))
    assert made["spec"]["propagateDeps"] is False


def test_complete_policy_is_not_written() -> None:
    (made,) = defaulted(policy())
    assert defaulted(made) == []


def test_no_execute_taint_gets_time_added() -> None:
    raw = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "member1"},
        "spec": {
            "syncMode": "Push",
            "taints": [
                {"key": "evict", "effect": "NoExecute"},
                {"key": "old", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
                {"key": "full", "effect": "NoSchedule"},
            ],
        },
    }
    view = FakeView(raws=[raw])
    (made,) = (w.wanted for w in webhook_defaults(kind_of(Cluster).decode(raw), view) if isinstance(w, Ensure))
    times = [taint.get("timeAdded") for taint in made["spec"]["taints"]]
    assert times == [view.now.strftime("%Y-%m-%dT%H:%M:%SZ"), "2026-01-01T00:00:00Z", None]
