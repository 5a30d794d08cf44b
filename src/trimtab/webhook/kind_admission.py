"""Defaults and checks of Trimtab's, Karmada's and OCM's kinds: what a kube-apiserver cannot do by itself.

The functions are those that the embedded API server calls, so both decide the same. The table
`api/admission/enforcement.py` says for which kinds an API server asks.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from trimtab.api.admission.denials import denial
from trimtab.api.admission.enforcement import CHECKED_BEFORE_SCHEMA, FILLED_KINDS
from trimtab.api.admission.ocm import stamp_unset_taints, without_recent_stamps
from trimtab.api.admission.requirements import Requirement
from trimtab.api.admission.taint_policy import check_taint_policy
from trimtab.api.field_errors import invalid
from trimtab.api.kind import Kind, kinds
from trimtab.api.kinds.disruption import PriorityOrder
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.paths import object_at, value_at, with_value
from trimtab.api.value import Raw
from trimtab.clock import Clock, WallClock
from trimtab.errors import ApiError, Cause
from trimtab.interpret.lua.sandbox import check_syntax
from trimtab.runtime.cache import Cache
from trimtab.server.admission.peer_webhooks import PERMANENT_IDS, with_permanent_id
from trimtab.server.admission.priority_order import contradictions, order_cause, value_cause
from trimtab.server.auth.user import MASTERS
from trimtab.server.storage.uids import random_uid
from trimtab.webhook.requirement_checks import RequirementChecks
from trimtab.webhook.review import ALLOWED, Refused, Review, Verdict

PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
PRIORITY_ORDERS = "priorityorders.trimtab.dev"
CUSTOMIZATIONS = "resourceinterpretercustomizations.config.karmada.io"
BUDGETS = "disruptionbudgets.trimtab.dev"


class KindAdmission:
    """Sets defaults and checks objects; reads the order of priority classes from the cache."""

    def __init__(
        self,
        cache: Cache,
        *,
        allow_no_execute_taints: bool = False,
        budget_target: str = "Workloads",
        new_id: Callable[[], str] = random_uid,
        requirements: RequirementChecks | None = None,
        clock: Clock = WallClock(),  # noqa: B008 - it has no state
    ) -> None:
        """`budget_target`: what a DisruptionBudget selects when it does not say so; Pods in a member cluster."""
        self._requirements = requirements
        self._clock = clock
        self._allow_no_execute_taints = allow_no_execute_taints
        self._budget_target = budget_target
        self._new_id = new_id
        self._classes = cache.table_of(PriorityClass)
        self._orders = cache.table_of(PriorityOrder)

    async def mutate(self, review: Review) -> Verdict:
        kind = kinds.get(review.resource)
        if kind is None or review.object is None or review.subresource:
            return ALLOWED
        obj = self._with_changes(kind, review, review.object)
        if kind.id in CHECKED_BEFORE_SCHEMA and not obj["metadata"].get("deletionTimestamp"):
            self._check_valid(review, obj)
        if kind.id == BUDGETS and not value_at(obj, "spec", "target"):
            obj = with_value(obj, self._budget_target, "spec", "target")
        for fill in (*(kind.defaults if kind.id in FILLED_KINDS else ()), *kind.admission_defaults):
            obj = fill(obj)
        if review.operation == "CREATE" and kind.id in PERMANENT_IDS:
            obj = with_permanent_id(obj, *PERMANENT_IDS[kind.id], self._new_id())
        return Verdict(object=obj)

    async def validate(self, review: Review) -> Verdict:
        """Refuses an object with all its errors."""
        obj = review.object
        if obj is None or review.subresource:
            return ALLOWED
        if not obj["metadata"].get("deletionTimestamp"):
            self._check_valid(review, obj)
        kind = kinds.get(review.resource)
        for find_requirements in kind.admission_requirements if kind is not None else ():
            for requirement in find_requirements(obj, review.old):
                await self._check_requirement(review, requirement)
        return ALLOWED

    def _check_valid(self, review: Review, obj: Raw) -> None:
        causes = list(self._causes(review.resource, obj, review.old))
        if causes:
            raise Refused(denial(review.resource.partition(".")[2], causes))

    async def _check_requirement(self, review: Review, requirement: Requirement) -> None:
        if self._requirements is None:
            raise RuntimeError("no permissions can be checked")
        await self._requirements.check(review, requirement)

    def _with_changes(self, kind: Kind, review: Review, obj: Raw) -> Raw:
        """What depends on the stored object and the time. Administrators may choose the times of taints."""
        now = self._clock.now()
        if kind.admission_changes and MASTERS in review.groups:
            return stamp_unset_taints(obj, review.old, now)
        if kind.admission_changes:
            obj = without_recent_stamps(obj, review.old, now)
        try:
            for change in kind.admission_changes:
                obj = change(obj, review.old, now)
        except ApiError as refusal:
            raise Refused(refusal) from None
        return obj

    def _causes(self, resource: str, obj: Raw, old: Raw | None) -> Iterator[Cause]:
        if resource == PRIORITY_CLASSES:
            yield from self._class_causes(obj)
            return
        kind = kinds.get(resource)
        if kind is None:
            return
        yield from self._kind_causes(kind, _normalize(kind, obj), old)
        if resource == PRIORITY_ORDERS:
            names = object_at(obj, "spec").get("names") or ()
            yield from (order_cause(*pair) for pair in contradictions(names, self._class_values()))
        if resource == CUSTOMIZATIONS:
            yield from script_causes(_normalize(kind, obj))

    def _kind_causes(self, kind: Kind, obj: Raw, old: Raw | None) -> Iterator[Cause]:
        for check in (*kind.validators, *kind.admission_validators):
            if check is check_taint_policy:
                yield from check_taint_policy(obj, old, allow_no_execute=self._allow_no_execute_taints)
            else:
                yield from check(obj, old)

    def _class_causes(self, obj: Raw) -> Iterator[Cause]:
        """The order was there first: a class must fit into it."""
        entry = self._orders.entries.get(("", "default"))
        if entry is None:
            return
        own = obj["metadata"]["name"]
        names = cast("PriorityOrder", entry.typed).spec.names
        found = contradictions(names, {**self._class_values(), own: obj.get("value", 0)})
        yield from (value_cause(own, *pair) for pair in found if own in (pair[0].name, pair[1].name))

    def _class_values(self) -> dict[str, int]:
        return {name: cast("PriorityClass", entry.typed).value for (_, name), entry in self._classes.entries.items()}


def _normalize(kind: Kind, obj: Raw) -> Raw:
    """The object in the spelling that the checks read."""
    for normalize in kind.normalizers or kind.defaults:
        obj = normalize(obj)
    return obj


def script_causes(customization: Raw) -> Sequence[Cause]:
    """The errors of scripts that do not compile."""
    rules = object_at(customization, "spec", "customizations")
    found = []
    for name, rule in rules.items():
        script = rule.get("luaScript") if isinstance(rule, dict) else None
        if isinstance(script, str) and (failure := check_syntax(script)) is not None:
            found.append(invalid(f"spec.customizations.{name}.luaScript", script[:80], failure.message))
    return found
