"""Status of a DisruptionPolicy: not ready when it names priority classes that do not exist."""

from collections.abc import Iterable, Iterator, Sequence

from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import DisruptionPolicy, DisruptionPolicySpec
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.value import Condition, Key
from trimtab.controllers.conditions import with_kstatus_conditions
from trimtab.controllers.contract import Effect, Trigger, View
from trimtab.controllers.pods.registry import member_controller


def disruption_policies(old: PriorityClass | None, new: PriorityClass | None, view: View) -> Iterable[Key]:
    if old is None or new is None:
        yield from map(key_of, view.all(DisruptionPolicy))


@member_controller(
    DisruptionPolicy,
    name="disruption-policy",
    writes=["status"],
    triggers=[Trigger(PriorityClass, disruption_policies)],
)
def disruption_policy_status(policy: DisruptionPolicy, view: View) -> Iterator[Effect]:
    conditions = with_priority_class_readiness(
        policy.status.conditions, sorted(set(priority_classes_in(policy.spec))), view
    )
    status = policy.status.but(observed_generation=policy.metadata.generation, conditions=conditions)
    if status != policy.status:
        yield policy.but(status=status)


def with_priority_class_readiness(
    conditions: tuple[Condition, ...], classes: Sequence[str], view: View
) -> tuple[Condition, ...]:
    """Ready, if all priority classes that the object names exist."""
    unknown = [name for name in classes if view.get(PriorityClass, "", name) is None]
    message = f"there is no PriorityClass {', '.join(unknown)}" if unknown else ""
    reason = "UnknownPriorityClass" if unknown else "Accepted"
    return with_kstatus_conditions(conditions, reason, message, view, fault=bool(unknown))


def priority_classes_in(spec: DisruptionPolicySpec) -> Iterator[str]:
    """Every priority class that the policy names."""
    yield from (rule.priority_class_name for rule in spec.priority_rules)
    yield from (one.priority_class_name for one in spec.default_budgets if one.priority_class_name)
    yield from (floor.at_or_below_priority for floor in spec.floors if floor.at_or_below_priority)
    yield from spec.limited_priorities
