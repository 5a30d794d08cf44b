import pytest

from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.value import Raw

DEFINITION: Raw = {
    "metadata": {"name": "as.x.io"},
    "spec": {
        "group": "x.io",
        "scope": "Namespaced",
        "names": {"plural": "as", "kind": "A"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
WEBHOOKS: Raw = {
    "metadata": {"name": "h"},
    "webhooks": [
        {
            "name": "a.b.io",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://x/y"},
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
        }
    ],
}


def test_valid_definition_is_accepted_on_create_and_update() -> None:
    assert validation_error("apiextensions.k8s.io/v1", "CustomResourceDefinition", DEFINITION) == ""
    assert validation_error("apiextensions.k8s.io/v1", "CustomResourceDefinition", DEFINITION, DEFINITION) == ""


def test_valid_webhook_configuration_is_accepted_on_create_and_update() -> None:
    assert validation_error("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", WEBHOOKS) == ""
    assert (
        validation_error("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", WEBHOOKS, WEBHOOKS) == ""
    )


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        (
            ("metadata", "name"),
            "x",
            'metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group',
        ),
        (
            ("spec", "scope"),
            "Galaxy",
            'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
        ),
        (
            ("spec", "names", "listKind"),
            "A",
            'spec.names.listKind: Invalid value: "A": kind and listKind may not be the same',
        ),
    ],
)
def test_invalid_definition_is_rejected(path: tuple[str, ...], value: str, error: str) -> None:
    definition = with_change(DEFINITION, *path, to=value)
    assert validation_error("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition) == error


def test_definition_needs_exactly_one_storage_version() -> None:
    definition = with_change(DEFINITION, "spec", "versions", 0, "storage", to=False)
    error = validation_error("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition)
    assert "must have exactly one version marked as storage version" in error
    assert "status.storedVersions: Invalid value: null: must have at least one stored version" in error


def test_scope_and_kind_of_a_definition_are_immutable() -> None:
    changed = with_change(DEFINITION, "spec", "scope", to="Cluster")
    assert validation_error("apiextensions.k8s.io/v1", "CustomResourceDefinition", changed, DEFINITION) == (
        'spec.scope: Invalid value: "Cluster": field is immutable'
    )
    changed = with_change(DEFINITION, "spec", "names", "kind", to="B")
    assert validation_error("apiextensions.k8s.io/v1", "CustomResourceDefinition", changed, DEFINITION) == (
        'spec.names.kind: Invalid value: "B": field is immutable'
    )


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        (
            ("name",),
            "short",
            'webhooks[0].name: Invalid value: "short": should be a domain with at least three segments separated by dots',
        ),
        (
            ("sideEffects",),
            "Some",
            'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
        ),
        (
            ("timeoutSeconds",),
            31,
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            ("clientConfig",),
            {},
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (("rules", 0, "operations"), [], "webhooks[0].rules[0].operations: Required value"),
    ],
)
def test_invalid_webhook_is_rejected(path: tuple[str | int, ...], value: object, error: str) -> None:
    configuration = with_change(WEBHOOKS, "webhooks", 0, *path, to=value)
    assert validation_error("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", configuration) == error


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("admissionReviewVersions", ["v9"], "must include at least one of v1, v1beta1"),
        ("admissionReviewVersions", ["v1", "v1"], "duplicate version"),
        ("clientConfig", {"url": "https://u:p@x/y"}, "user information is not permitted in the URL"),
        ("clientConfig", {"url": "https://x/y?a=b"}, "query parameters are not permitted in the URL"),
        ("clientConfig", {"url": "https://x/y#c"}, "fragments are not permitted in the URL"),
        ("clientConfig", {"url": "https:///y"}, "host must be specified"),
        (
            "clientConfig",
            {"service": {"name": "a", "namespace": "b", "port": 99999}},
            "port is not valid: must be between 1 and 65535, inclusive",
        ),
        (
            "clientConfig",
            {"service": {"name": "a", "namespace": "b", "path": "/a//b"}},
            "segment[1] may not be empty",
        ),
        ("matchPolicy", "Foo", "Unsupported value"),
    ],
)
def test_webhook_that_kube_apiserver_refuses_is_refused(field: str, value: object, fault: str) -> None:
    changed = with_change(WEBHOOKS, "webhooks", 0, field, to=value)
    assert fault in validation_error("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", changed)
