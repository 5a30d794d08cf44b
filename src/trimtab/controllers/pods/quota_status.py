"""Status of ResourceQuotas, and the condition that quotas of the highest priority exceed the nodes."""

from collections.abc import Iterable, Iterator, Mapping

from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import PriorityOrder
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.quota import ResourceQuota
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.value import Condition, Key
from trimtab.controllers import well_known
from trimtab.controllers.conditions import is_condition_true, with_condition
from trimtab.controllers.contract import Effect, RecordEvent, Trigger, View
from trimtab.controllers.pods.disruption_policy_status import with_priority_class_readiness
from trimtab.controllers.pods.registry import member_controller
from trimtab.decide.pods.budgets.priority_quota import (
    format_amount,
    guaranteed_amounts,
    hard_limits_of,
    quota_applies_to,
    usage_of,
)
from trimtab.decide.pods.fit.requests import parse_amounts

OVERCOMMITTED = "TopPriorityOvercommitted"


def quotas_in_namespace(old: Pod | None, new: Pod | None, view: View) -> Iterable[Key]:
    pod = new or old
    if pod is not None and (old is None or new is None or old.is_terminal != new.is_terminal):
        yield from map(key_of, view.all(ResourceQuota, pod.namespace))


@member_controller(ResourceQuota, name="quota", writes=["status"], triggers=[Trigger(Pod, quotas_in_namespace)])
def quota_status(subject: ResourceQuota, view: View) -> Iterator[Effect]:
    hard = hard_limits_of(subject)
    used = usage_of([pod for pod in view.all(Pod, subject.namespace) if quota_applies_to(subject, pod)], hard)
    status = subject.status.but(
        hard={name: str(value) for name, value in subject.spec.hard.items()},
        used={name: _used_amount(subject, name, used) for name in subject.spec.hard},
    )
    if status != subject.status:
        yield subject.but(status=status)


def _used_amount(subject: ResourceQuota, name: str, used: Mapping[str, int]) -> str:
    """What pods use; what other objects use is reported by the API server and kept."""
    return format_amount(name, used[name]) if name in used else str(subject.status.used.get(name, "0"))


OvercommitInput = ResourceQuota | Node | PriorityClass


def priority_orders(old: OvercommitInput | None, new: OvercommitInput | None, view: View) -> Iterable[Key]:
    if old is None or new is None or _relevant_part(old) != _relevant_part(new):
        yield from map(key_of, view.all(PriorityOrder))


def _relevant_part(thing: OvercommitInput) -> object:
    if isinstance(thing, PriorityClass):
        return None  # the value of a class is immutable
    return thing.status.allocatable if isinstance(thing, Node) else thing.spec


@member_controller(
    PriorityOrder,
    name="overcommit",
    writes=["status"],
    triggers=[
        Trigger(ResourceQuota, priority_orders),
        Trigger(Node, priority_orders),
        Trigger(PriorityClass, priority_orders),
    ],
)
def overcommit_status(order: PriorityOrder, view: View) -> Iterator[Effect]:
    """Only a warning: the quota is not a guarantee in any case, because free resources may be fragmented."""
    top = next((name for name in order.spec.names if view.get(PriorityClass, "", name) is not None), "")
    wanted = guaranteed_amounts(view.all(ResourceQuota), top)
    allocatable: dict[str, int] = {}
    for node in view.all(Node):
        for name, amount in parse_amounts(node.status.allocatable).items():
            allocatable[name] = allocatable.get(name, 0) + amount
    over = [
        f"{format_amount(name, amount)} {name} are reserved by quotas, the nodes have {format_amount(name, allocatable.get(name, 0))}"
        for name, amount in sorted(wanted.items())
        if amount > allocatable.get(name, 0)
    ]
    condition = Condition(
        type=OVERCOMMITTED,
        status="True" if over else "False",
        reason="QuotasExceedNodes" if over else "QuotasFit",
        message="; ".join(over),
        last_transition_time=view.now.replace(microsecond=0),
        observed_generation=order.metadata.generation,
    )
    was_over = is_condition_true(order.status.conditions, OVERCOMMITTED)
    conditions = with_priority_class_readiness(
        with_condition(order.status.conditions, condition), order.spec.names, view
    )
    status = order.status.but(observed_generation=order.metadata.generation, conditions=conditions)
    if status != order.status:
        yield order.but(status=status)
    if over and not was_over:
        about = view.get(PriorityClass, "", top)
        if about is not None:
            yield RecordEvent(
                well_known.ref_of(about), OVERCOMMITTED, condition.message, "trimtab-overcommit", "Warning"
            )
