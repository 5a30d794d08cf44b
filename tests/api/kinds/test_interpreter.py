"""Customizations and webhooks of the resource interpreter."""

from api.kinds.kind_helpers import decode
from trimtab.api.kinds.interpreter import ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration

SCRIPT = {"luaScript": "function Retain(desired, observed) return desired end"}


def test_scripts_directly_under_spec_are_moved_on_decoding() -> None:
    raw = {"spec": {"target": {"apiVersion": "example.com/v1", "kind": "Thing"}, "retention": SCRIPT}}
    spec = decode(ResourceInterpreterCustomization, raw).spec
    assert spec.retention is None
    assert spec.customizations.retention is not None
    assert spec.customizations.retention.lua_script == SCRIPT["luaScript"]


def test_webhook_keeps_its_client_and_rules() -> None:
    hook = {
        "name": "a.b.c",
        "clientConfig": {"url": "https://hook"},
        "rules": [{"operations": ["*"], "kinds": ["Thing"]}],
    }
    (webhook,) = decode(ResourceInterpreterWebhookConfiguration, {"webhooks": [hook]}).webhooks
    assert (webhook.client_config.url, webhook.client_config.service) == ("https://hook", None)
    assert webhook.rules[0].kinds == ("Thing",)
