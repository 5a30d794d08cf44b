from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.value import Raw

CONFIG_MAP: Raw = {"metadata": {"name": "c"}, "data": {"k": "v"}}
SECRET: Raw = {"metadata": {"name": "s"}, "data": {"k": "dg=="}}


def test_valid_config_map_is_accepted_on_create_and_update() -> None:
    assert validation_error("v1", "ConfigMap", CONFIG_MAP) == ""
    assert validation_error("v1", "ConfigMap", CONFIG_MAP, CONFIG_MAP) == ""


def test_valid_secret_is_accepted_on_create_and_update() -> None:
    assert validation_error("v1", "Secret", SECRET) == ""
    assert validation_error("v1", "Secret", SECRET, SECRET) == ""


def test_keys_with_other_characters_are_rejected() -> None:
    assert validation_error("v1", "ConfigMap", with_change(CONFIG_MAP, "data", to={"bad key": "v"})) == (
        "data[bad key]: Invalid value: \"bad key\": a valid config key must consist of alphanumeric characters, '-', "
        "'_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
    )


def test_key_may_not_be_in_both_data_and_binary_data() -> None:
    assert validation_error("v1", "ConfigMap", {**CONFIG_MAP, "binaryData": {"k": "dg=="}}) == (
        'data[k]: Invalid value: "k": duplicate of key present in binaryData'
    )


def test_content_is_limited_to_one_mebibyte() -> None:
    assert validation_error("v1", "ConfigMap", with_change(CONFIG_MAP, "data", "k", to="v" * 1024 * 1024)) == ""
    error = validation_error("v1", "ConfigMap", with_change(CONFIG_MAP, "data", "k", to="v" * (1024 * 1024 + 1)))
    assert error.startswith("[]: Too long")


def test_data_of_an_immutable_config_map_may_not_change() -> None:
    immutable = {**CONFIG_MAP, "immutable": True}
    changed = with_change(immutable, "data", to={"k": "other"})
    assert validation_error("v1", "ConfigMap", changed, immutable) == (
        "data: Forbidden: field is immutable when `immutable` is set"
    )


def test_immutable_secret_may_not_become_mutable() -> None:
    assert validation_error("v1", "Secret", SECRET, {**SECRET, "immutable": True}) == (
        "immutable: Forbidden: field is immutable when `immutable` is set"
    )


def test_tls_secret_needs_certificate_and_key() -> None:
    assert validation_error("v1", "Secret", {"metadata": {"name": "s"}, "type": "kubernetes.io/tls"}) == (
        "[data[tls.crt]: Required value, data[tls.key]: Required value]"
    )


def test_type_of_a_secret_is_immutable() -> None:
    secret: Raw = {"metadata": {"name": "s"}, "type": "a"}
    assert validation_error("v1", "Secret", with_change(secret, "type", to="b"), secret) == (
        'type: Invalid value: "b": field is immutable'
    )
