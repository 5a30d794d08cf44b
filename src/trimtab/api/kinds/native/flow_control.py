"""Flow control of the API server: which requests share which seats, and how they wait for them."""

import msgspec

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import extension as extension_defaults
from trimtab.api.kinds.native.rules import flow_control
from trimtab.api.value import Object, Value

GROUP = "flowcontrol.apiserver.k8s.io"


class NamedSubject(Value):
    """A user or a group."""

    name: str = ""


class ServiceAccountSubject(Value):
    namespace: str = ""
    name: str = ""


class FlowSubject(Value):
    kind: str = ""
    user: NamedSubject | None = None
    group: NamedSubject | None = None
    service_account: ServiceAccountSubject | None = None


class ResourcePolicyRule(Value):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    cluster_scope: bool = False
    namespaces: tuple[str, ...] | None = ()


class NonResourcePolicyRule(Value):
    verbs: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class PolicyRulesWithSubjects(Value):
    subjects: tuple[FlowSubject, ...] = ()
    resource_rules: tuple[ResourcePolicyRule, ...] = ()
    non_resource_rules: tuple[NonResourcePolicyRule, ...] = ()


class PriorityLevelReference(Value):
    name: str = ""


class DistinguisherMethod(Value):
    type: str = ""


class FlowSchemaSpec(Value):
    priority_level_configuration: PriorityLevelReference = PriorityLevelReference()
    matching_precedence: int = 1000
    distinguisher_method: DistinguisherMethod | None = None
    rules: tuple[PolicyRulesWithSubjects, ...] = ()


@kind(
    group=GROUP,
    version="v1",
    plural="flowschemas",
    namespaced=False,
    status=True,
    custom=False,
    defaults=[extension_defaults.flow_schema],
    validators=[flow_control.check_flow_schema],
)
class FlowSchema(Object):
    spec: FlowSchemaSpec = FlowSchemaSpec()


class QueuingConfiguration(Value):
    queues: int = 64
    hand_size: int = 8
    queue_length_limit: int = 50


class LimitResponse(Value):
    type: str = ""
    queuing: QueuingConfiguration | None = None


class LimitedPriorityLevel(Value):
    nominal_concurrency_shares: int | None = 30
    limit_response: LimitResponse = LimitResponse()
    lendable_percent: int | None = 0
    borrowing_limit_percent: int | None = None


class ExemptPriorityLevel(Value):
    nominal_concurrency_shares: int | None = 0
    lendable_percent: int | None = 0


class PriorityLevelSpec(Value):
    type: str = ""
    limited: LimitedPriorityLevel | None = None
    exempt: ExemptPriorityLevel | None = None


@kind(
    group=GROUP,
    version="v1",
    plural="prioritylevelconfigurations",
    namespaced=False,
    status=True,
    custom=False,
    defaults=[extension_defaults.priority_level_configuration],
    validators=[flow_control.check_priority_level],
)
class PriorityLevelConfiguration(Object):
    spec: PriorityLevelSpec = PriorityLevelSpec()
