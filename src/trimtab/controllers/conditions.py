"""Reading and setting status conditions, as `meta.FindStatusCondition` and `meta.SetStatusCondition` do in Go."""

from collections.abc import Iterable

from trimtab.api.value import Condition
from trimtab.controllers.contract import View


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    for condition in conditions:
        if condition.type == type_:
            return condition
    return None


def is_condition_true(conditions: Iterable[Condition], type_: str) -> bool:
    found = find_condition(conditions, type_)
    return found is not None and found.status == "True"


def with_condition(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """The conditions with `new` added or replaced; its transition time changes only when the status changes."""
    old = find_condition(conditions, new.type)
    if old is None:
        return (*conditions, new)
    if old.status == new.status:
        new = new.but(last_transition_time=old.last_transition_time)
    return tuple(new if c.type == new.type else c for c in conditions)


def with_kstatus_conditions(
    conditions: tuple[Condition, ...], reason: str, message: str, view: View, *, fault: bool = False
) -> tuple[Condition, ...]:
    """The conditions with Ready, Reconciling and Stalled, which kstatus and the tools built on it read."""
    wanted = (("Ready", not fault, message), ("Reconciling", False, ""), ("Stalled", fault, message if fault else ""))
    for type_, holds, text in wanted:
        at = view.now.replace(microsecond=0)
        new = Condition(
            type=type_, status="True" if holds else "False", reason=reason, message=text, last_transition_time=at
        )
        conditions = with_condition(conditions, new)
    return conditions


def join_messages(messages: Iterable[str]) -> str:
    """Several failure messages as one text without repetitions, as Go prints an aggregate error."""
    texts = list(dict.fromkeys(messages))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
