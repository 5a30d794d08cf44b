"""PodDisruptionBudgets: how many pods of a set may be unavailable through voluntary disruptions."""

from datetime import datetime

from trimtab.api.kind import kind
from trimtab.api.kinds.native.rules import disruption
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, IntOrString, Object, Value


class PodDisruptionBudgetSpec(Value):
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Value):
    observed_generation: int = 0
    disrupted_pods: dict[str, datetime] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


@kind(
    group="policy",
    version="v1",
    plural="poddisruptionbudgets",
    short=["pdb"],
    status=True,
    custom=False,
    validators=[disruption.check_pod_disruption_budget],
)
class PodDisruptionBudget(Object):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
