"""Pods, with the fields that scheduling, rescheduling and the workload controllers read."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import pods as pods_defaults
from trimtab.api.kinds.native.node import Taint
from trimtab.api.kinds.native.rules import pods
from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement
from trimtab.api.value import Meta, Object, OwnerReference, QuantityText, Value


class ContainerPort(Value):
    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ResourceRequirements(Value):
    limits: dict[str, QuantityText] = {}
    requests: dict[str, QuantityText] = {}


class Container(Value):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    """`Always` makes an init container a sidecar; absent elsewhere."""


class NodeSelectorTerm(Value):
    """All parts must match; a term without parts matches no node."""

    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_fields: tuple[LabelSelectorRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        if not self.match_expressions and not self.match_fields:
            return False
        return all(rule.matches(labels) for rule in self.match_expressions) and all(
            rule.matches(fields) for rule in self.match_fields
        )


class NodeSelector(Value):
    """At least one term must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        return any(term.matches(labels, fields) for term in self.node_selector_terms)


class PreferredSchedulingTerm(Value):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Value):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Value):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Value):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Value):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Value):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Value):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


class TopologySpreadConstraint(Value):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class ClaimSource(Value):
    claim_name: str = ""
    read_only: bool = False


class EmptyDirSource(Value):
    medium: str = ""
    size_limit: QuantityText | None = None


class HostPathSource(Value):
    path: str = ""


class ConfigMapSource(Value):
    """A ConfigMap, by name."""

    name: str = ""


class SecretSource(Value):
    secret_name: str = ""


class EphemeralSource(Value):
    """A claim that exists for this pod only; nothing else of it is read."""


class Volume(Value):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    empty_dir: EmptyDirSource | None = None
    host_path: HostPathSource | None = None
    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    ephemeral: EphemeralSource | None = None


class PodSchedulingGate(Value):
    name: str = ""


class PodReadinessGate(Value):
    condition_type: str = ""


class PodResourceClaim(Value):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Value):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    overhead: dict[str, QuantityText] = {}
    resources: ResourceRequirements | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    restart_policy: str = ""
    service_account_name: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class PodTemplateSpec(Value):
    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()


class PodCondition(Value):
    type: str = ""
    status: str = "Unknown"
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class ContainerStateWaiting(Value):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Value):
    started_at: datetime | None = None


class ContainerStateTerminated(Value):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Value):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Value):
    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    started: bool | None = None


class PodStatus(Value):
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    start_time: datetime | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""


@kind(
    group="",
    version="v1",
    plural="pods",
    short=["po"],
    categories=["all"],
    status=True,
    custom=False,
    defaults=[pods_defaults.pod],
    validators=[pods.check_pod],
)
class Pod(Object):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that creates a replacement for the pod."""
        for owner in self.metadata.owner_references:
            if owner.controller:
                return owner
        return None

    @property
    def is_terminal(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)
