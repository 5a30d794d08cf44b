"""Long-running workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, PodTemplates."""

from datetime import datetime

from trimtab.api.kind import ScalePaths, kind
from trimtab.api.kinds.native.defaults import pods as pods_defaults
from trimtab.api.kinds.native.defaults import workloads as workloads_defaults
from trimtab.api.kinds.native.pod import PodTemplateSpec
from trimtab.api.kinds.native.rules import workloads
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import IntOrString, Object, Value


class WorkloadCondition(Value):
    type: str = ""
    status: str = "Unknown"
    last_update_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class RollingUpdate(Value):
    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None
    partition: int | None = None


class Strategy(Value):
    type: str = ""
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(Value):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: Strategy = Strategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentStatus(Value):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[WorkloadCondition, ...] = ()
    collision_count: int | None = None


@kind(
    group="apps",
    version="v1",
    plural="deployments",
    short=["deploy"],
    categories=["all"],
    status=True,
    scale=ScalePaths(),
    custom=False,
    defaults=[workloads_defaults.deployment],
    validators=[workloads.check_deployment],
)
class Deployment(Object):
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(Value):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    min_ready_seconds: int = 0


class ReplicaSetStatus(Value):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


@kind(
    group="apps",
    version="v1",
    plural="replicasets",
    short=["rs"],
    categories=["all"],
    status=True,
    scale=ScalePaths(),
    custom=False,
    defaults=[workloads_defaults.replica_set],
    validators=[workloads.check_replica_set],
)
class ReplicaSet(Object):
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class StatefulSetSpec(Value):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: Strategy = Strategy()
    revision_history_limit: int | None = None
    min_ready_seconds: int = 0


class StatefulSetStatus(Value):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: tuple[WorkloadCondition, ...] = ()


@kind(
    group="apps",
    version="v1",
    plural="statefulsets",
    short=["sts"],
    categories=["all"],
    status=True,
    scale=ScalePaths(),
    custom=False,
    defaults=[workloads_defaults.stateful_set],
    validators=[workloads.check_stateful_set],
)
class StatefulSet(Object):
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(Value):
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: Strategy = Strategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSetStatus(Value):
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


@kind(
    group="apps",
    version="v1",
    plural="daemonsets",
    short=["ds"],
    categories=["all"],
    status=True,
    custom=False,
    defaults=[workloads_defaults.daemon_set],
    validators=[workloads.check_daemon_set],
)
class DaemonSet(Object):
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


@kind(
    group="apps",
    version="v1",
    plural="controllerrevisions",
    custom=False,
    validators=[workloads.check_controller_revision],
)
class ControllerRevision(Object):
    revision: int = 0


class ReplicationControllerSpec(Value):
    replicas: int | None = None
    selector: dict[str, str] = {}
    template: PodTemplateSpec | None = None
    min_ready_seconds: int = 0


@kind(
    group="",
    version="v1",
    plural="replicationcontrollers",
    short=["rc"],
    categories=["all"],
    status=True,
    scale=ScalePaths(),
    custom=False,
    defaults=[workloads_defaults.replication_controller],
    validators=[workloads.check_replication_controller],
)
class ReplicationController(Object):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


@kind(
    group="",
    version="v1",
    plural="podtemplates",
    custom=False,
    defaults=[pods_defaults.pod_template_object],
    validators=[workloads.check_pod_template_object],
)
class PodTemplate(Object):
    template: PodTemplateSpec = PodTemplateSpec()
