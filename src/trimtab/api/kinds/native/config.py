"""Configuration of pods: ConfigMaps, Secrets, ServiceAccounts."""

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import objects as objects_defaults
from trimtab.api.kinds.native.rules import config
from trimtab.api.value import Object, Value


@kind(group="", version="v1", plural="configmaps", short=["cm"], custom=False, validators=[config.check_config_map])
class ConfigMap(Object):
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool | None = None


@kind(
    group="",
    version="v1",
    plural="secrets",
    custom=False,
    defaults=[objects_defaults.secret],
    validators=[config.check_secret],
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
