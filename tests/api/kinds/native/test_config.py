from api.kinds.kind_helpers import decode
from trimtab.api.kinds.native.config import ConfigMap, Secret, ServiceAccount


def test_secret_values_stay_base64_text() -> None:
    secret = decode(Secret, {"metadata": {"name": "s"}, "type": "Opaque", "data": {"k": "dg=="}})
    assert (secret.type, secret.data) == ("Opaque", {"k": "dg=="})


def test_config_map_keeps_text_and_binary_data_apart() -> None:
    config = decode(ConfigMap, {"metadata": {"name": "c"}, "data": {"a": "b"}, "binaryData": {"k": "dg=="}})
    assert (config.data, config.binary_data, config.immutable) == ({"a": "b"}, {"k": "dg=="}, None)


def test_service_account_keeps_its_pull_secrets() -> None:
    raw = {"metadata": {"name": "a"}, "imagePullSecrets": [{"name": "p"}], "automountServiceAccountToken": False}
    account = decode(ServiceAccount, raw)
    assert [one.name for one in account.image_pull_secrets] == ["p"]
    assert account.automount_service_account_token is False
