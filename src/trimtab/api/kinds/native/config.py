"""What pods are configured with: ConfigMaps, Secrets, service accounts."""

from trimtab.api.kind import kind
from trimtab.api.kinds.native import defaults
from trimtab.api.kinds.native.rules import others
from trimtab.api.value import Object, Value


@kind(group="", version="v1", plural="configmaps", short=["cm"], custom=False, validators=[others.check_config_map])
class ConfigMap(Object):
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool | None = None


@kind(
    group="", version="v1", plural="secrets", custom=False, defaults=[defaults.secret], validators=[others.check_secret]
)
class Secret(Object):
    data: dict[str, str] = {}
    """Values are base64 text, as on the wire."""
    type: str = ""
    immutable: bool | None = None


class SecretName(Value):
    name: str = ""


@kind(group="", version="v1", plural="serviceaccounts", short=["sa"], custom=False)
class ServiceAccount(Object):
    secrets: tuple[SecretName, ...] = ()
    image_pull_secrets: tuple[SecretName, ...] = ()
    automount_service_account_token: bool | None = None
