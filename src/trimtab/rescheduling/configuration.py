"""The configuration of the rescheduler in a ConfigMap: our settings, or a DeschedulerPolicy with settings."""

from collections.abc import Callable
from typing import NamedTuple

from trimtab import plugins
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.config import ConfigMap
from trimtab.api.value import Raw
from trimtab.api.yaml_documents import YamlError, load_yaml
from trimtab.client.client import Client, resource_of
from trimtab.decide.pods.descheduling.policy import DeschedulerPolicy, read_policy
from trimtab.decide.rescheduling.objectives import objectives
from trimtab.decide.rescheduling.settings import ReschedulerSettings, read_settings
from trimtab.errors import InputError, NotFound

NAMESPACE, NAME = "kube-system", "trimtab-rescheduler"
CONFIG_MAPS = resource_of(kind_of(ConfigMap))


class ReschedulerConfig(NamedTuple):
    """The ConfigMap: our settings, or a DeschedulerPolicy with settings."""

    settings: ReschedulerSettings
    policy: DeschedulerPolicy | None = None


def read_config(data: dict[str, str]) -> ReschedulerConfig:
    """Read the ConfigMap; raises `InputError` with a message for an event."""
    plugins.load()
    known = {one.name: one.args for one in objectives.values()}
    try:
        if "policy.yaml" in data:
            policy = read_policy(load_yaml(data["policy.yaml"]) or {})
            # the policy decides which moves are worthwhile; settings beside it decide how carefully they are made
            own = load_yaml(data.get("rescheduler.yaml", "")) or {"preset": "aggressive"}
            return ReschedulerConfig(read_settings(own, known), policy)
        return ReschedulerConfig(read_settings(load_yaml(data.get("rescheduler.yaml", "")), known))
    except YamlError as fault:
        raise InputError(f"not YAML: {fault}") from fault


class Configuration:
    """The configuration in effect; one that cannot be read leaves the previous one in effect."""

    def __init__(
        self, client: Client, fixed: ReschedulerConfig | None, report_invalid: Callable[[Raw, str], None]
    ) -> None:
        """`fixed` is used instead of the ConfigMap."""
        self._client = client
        self._is_fixed = fixed is not None
        self._report_invalid = report_invalid
        self._version = ""
        self.current = fixed
        self.error = ""
        """Why the newest configuration is not in effect; empty when it is."""

    @property
    def policy(self) -> DeschedulerPolicy | None:
        return self.current.policy if self.current is not None else None

    @property
    def uses_metrics(self) -> bool:
        """Whether measured usage counts, not only requests."""
        return self.policy is not None and self.policy.uses_metrics

    @property
    def goals(self) -> str:
        """A short description of what is optimised."""
        if self.current is None:
            return "nothing is rescheduled"
        if self.current.policy is not None:
            named = [profile.name for profile in self.current.policy.profiles]
            return f"DeschedulerPolicy: {', '.join(named) or 'no profiles'}"
        settings = self.current.settings
        wanted = ", ".join(one.name for one in settings.objectives if one.enabled)
        return f"{wanted or 'no objectives'}: {settings.preset}"

    async def load(self) -> None:
        """Read the configuration once, for callers that do not run rounds."""
        await self.reload()
        if self.error and self.current is None:
            raise InputError(self.error)

    async def reload(self) -> None:
        if self._is_fixed:
            return
        try:
            raw = await self._client.get(CONFIG_MAPS, NAMESPACE, NAME)
        except NotFound:
            self.current, self._version, self.error = None, "", ""
            return
        if raw["metadata"]["resourceVersion"] == self._version:
            return
        self._version = raw["metadata"]["resourceVersion"]
        try:
            self.current, self.error = read_config(raw.get("data") or {}), ""
        except InputError as fault:
            self.error = str(fault)
            kept = "the previous one stays in effect" if self.current else "nothing is rescheduled"
            self._report_invalid(raw, f"{fault}; {kept}")
