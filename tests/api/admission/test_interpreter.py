"""Defaulting and validation of interpreter webhooks."""

from api.admission.admission_helpers import errors_of, with_defaults


def test_webhook_gets_defaults_and_must_be_reachable_and_fully_named() -> None:
    kind = "resourceinterpreterwebhookconfigurations.config.karmada.io"
    hook = {
        "name": "a.b.c",
        "clientConfig": {"service": {"namespace": "n", "name": "s"}},
        "interpreterContextVersions": ["v1alpha1"],
        "rules": [{"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "kinds": ["Deployment"]}],
    }
    ready = with_defaults(kind, {"webhooks": [hook]})
    assert ready["webhooks"][0]["timeoutSeconds"] == 10
    assert ready["webhooks"][0]["clientConfig"]["service"]["port"] == 443
    assert errors_of(kind, ready) == []
    assert (
        len(errors_of(kind, {"webhooks": [{**hook, "name": "short", "clientConfig": {}, "timeoutSeconds": 31}]})) == 3
    )
