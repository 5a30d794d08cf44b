"""What the containers of one simulated pod share and see: volumes, environment, the names of their node."""

import random
from collections.abc import Callable, Mapping
from datetime import datetime

from trimtab.api.value import Raw
from trimtab.simulate.containers.environment import (
    ConfigReference,
    MissingConfig,
    PodConfig,
    config_references,
    data_of,
    environment_of,
    environment_references,
    field_value,
    projected_sources,
    resource_value,
    token_reference,
)
from trimtab.simulate.containers.files import Directory, FileOwner, Files
from trimtab.simulate.containers.input_buffer import InputBuffer
from trimtab.simulate.containers.programs import ContainerContext, has_conventions
from trimtab.simulate.kubelets.machine import SimulatedMachine
from trimtab.simulate.kubelets.pod_status import pod_address

NO_CONFIG = PodConfig({})


class PodSandbox:
    """The volumes of a pod, and the configuration that was read for it."""

    def __init__(
        self,
        pod: Raw,
        machine: SimulatedMachine,
        rng: random.Random,
        files_of_claim: Callable[[str, str], Directory],
        now: Callable[[], datetime],
    ) -> None:
        self._pod = pod
        self._machine = machine
        self._rng = rng
        self._now = now
        self._files_of_claim = files_of_claim
        """(namespace, name of a PersistentVolumeClaim) -> its files"""
        self._shared: dict[str, Directory] = {}
        self.config = NO_CONFIG
        self.is_created = (pod.get("status") or {}).get("phase") == "Running"
        """Whether the container runtime has created it."""
        spec = pod["spec"]
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        mounts_config = any(one.get("configMap") or one.get("secret") for one in spec.get("volumes") or ())
        self._needs_config = any(
            one.get("command")
            or one.get("args")
            or ((mounts_config or environment_references(one)) and has_conventions(one))
            for one in containers
        )
        self.is_loaded = not self._needs_config
        """Whether the configuration has been read; only programs that are known read their environment and files."""

    @property
    def references(self) -> set[ConfigReference]:
        return config_references(self._pod["spec"])

    def config_error(self, container: Raw) -> str:
        """Why the container cannot start: a missing ConfigMap or Secret."""
        if not self._needs_config:
            return ""
        try:
            self._environment_of(container)
            for mount in container.get("volumeMounts") or ():
                self._volume(mount["name"])
        except MissingConfig as fault:
            return str(fault)
        return ""

    def load(self, config: PodConfig) -> None:
        """Use configuration that was read after the containers started, for a command that somebody executes."""
        self.config = config
        volumes = {one["name"]: one for one in self._pod["spec"].get("volumes") or ()}
        for name, files in self._shared.items():
            if projected_sources(volumes.get(name) or {}):
                files.update(self._fill(volumes[name]))

    def observe(self, pod: Raw) -> None:
        self._pod = pod

    def context_of(self, container: Raw) -> ContainerContext | None:
        """What the program of the container can see; None when its program is not known."""
        return self.new_context(container) if has_conventions(container) else None

    def new_context(self, container: Raw) -> ContainerContext:
        mounts: dict[str, Directory] = {}
        for mount in container.get("volumeMounts") or ():
            volume = self._volume(mount["name"])
            mounts[mount["mountPath"]] = volume
        environment = self._environment_of(container)
        context = {**(self._pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}
        owner = FileOwner(int(context.get("runAsUser") or 0), int(context.get("fsGroup") or 0))
        return ContainerContext(
            environment,
            Files(mounts, owner=owner),
            self._rng,
            self._pod["metadata"]["name"],
            InputBuffer(is_closed=not container.get("stdin")),
            self._now,
        )

    def _environment_of(self, container: Raw) -> dict[str, str]:
        return environment_of(container, self._addressed_pod(), self.config, self._allocatable)

    @property
    def _allocatable(self) -> Mapping[str, str]:
        return self._machine.plan.pool.capacity

    def _addressed_pod(self) -> Raw:
        """The pod with its addresses, which its status has only after its first container has started."""
        host, status = self._machine.address, self._pod.get("status") or {}
        own = host if self._pod["spec"].get("hostNetwork") else pod_address(self._pod["metadata"]["uid"])
        addresses = {"hostIP": host, "hostIPs": [{"ip": host}], "podIP": own, "podIPs": [{"ip": own}]}
        return {**self._pod, "status": {**addresses, **status}}

    def _volume(self, name: str) -> Directory:
        if name not in self._shared:
            volumes = self._pod["spec"].get("volumes") or ()
            volume: Raw = next((one for one in volumes if one["name"] == name), {})
            self._shared[name] = self._fill(volume)
        return self._shared[name]

    def _fill(self, volume: Raw) -> Directory:
        if host := volume.get("hostPath"):
            return self._machine.host_files.setdefault(host["path"], {})
        if claim := volume.get("persistentVolumeClaim"):
            return self._files_of_claim(self._pod["metadata"]["namespace"], claim.get("claimName") or "")
        if source := volume.get("configMap"):
            return self._config_files("ConfigMap", source.get("name") or "", source)
        if source := volume.get("secret"):
            return self._config_files("Secret", source.get("secretName") or "", source)
        if source := volume.get("downwardAPI"):
            return self._downward_files(source)
        merged: Directory = {}
        for source in projected_sources(volume) if self.config is not NO_CONFIG else ():
            merged.update(self._projected_files(source))
        return merged

    def _downward_files(self, source: Raw) -> Directory:
        return {item["path"]: self._downward_value(item) for item in source.get("items") or ()}

    def _downward_value(self, item: Raw) -> str:
        if resource := item.get("resourceFieldRef"):
            return resource_value(resource, None, self._pod, self._allocatable)
        return field_value(self._pod, (item.get("fieldRef") or {}).get("fieldPath") or "")

    def _projected_files(self, source: Raw) -> Directory:
        if part := source.get("configMap"):
            return self._config_files("ConfigMap", part.get("name") or "", part)
        if part := source.get("secret"):
            return self._config_files("Secret", part.get("name") or "", part)
        if part := source.get("downwardAPI"):
            return self._downward_files(part)
        token = source.get("serviceAccountToken")
        return {token["path"]: self.config.tokens.get(token_reference(token), "")} if token else {}

    def _config_files(self, kind: str, name: str, source: Raw) -> Directory:
        found = self.config.objects.get(ConfigReference(kind, name))
        if found is None:
            if source.get("optional"):
                return {}
            raise MissingConfig(f'{kind.lower()} "{name}" not found')
        data = data_of(found, kind)
        if items := source.get("items"):
            return {item["path"]: data[item["key"]] for item in items if item["key"] in data}
        return dict(data)
