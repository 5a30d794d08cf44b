"""What Karmada's webhook fills into propagation policies and refuses in them."""

from collections.abc import Iterator
from typing import Any

from trimtab.api.admission.placement import check_placement, fill_placement
from trimtab.api.admission.raw import at, change_items, in_order, mapping, objects, put, texts
from trimtab.api.field_errors import invalid, not_supported
from trimtab.api.names import qualified_name_faults
from trimtab.api.value import Raw
from trimtab.errors import Cause

GRACEFUL = ("Gracefully", "Graciously")
_PERMANENT_IDS = ("propagationpolicy.karmada.io/permanent-id", "clusterpropagationpolicy.karmada.io/permanent-id")
_GRACE_SECONDS = 600
_SILENT_WHEN_FALSE = ("propagateDeps", "association")
_WRITTEN_WHEN_EMPTY = ("resourceSelectors", "rules", "healthyState")


def own_namespace(policy: Raw) -> Raw:
    """Selectors without a namespace mean the policy's own."""
    namespace = at(policy, "metadata", "namespace")

    def fill(selector: Raw) -> Raw:
        return selector if selector.get("namespace") or not namespace else {**selector, "namespace": namespace}

    return change_items(policy, ("spec", "resourceSelectors"), fill)


def fill_propagation(policy: Raw) -> Raw:
    spec = mapping(policy.get("spec"))
    placement = mapping(spec.get("placement"))
    filled = fill_placement(placement)
    if filled is not placement:
        policy = put(policy, ("spec", "placement"), filled)
    application = at(spec, "failover", "application")
    if "propagateDeps" not in spec and (isinstance(application, dict) or _imports_services(spec)):
        policy = put(policy, ("spec", "propagateDeps"), True)
    if mapping(application).get("purgeMode") in GRACEFUL and mapping(application).get("gracePeriodSeconds") is None:
        policy = put(policy, ("spec", "failover", "application", "gracePeriodSeconds"), _GRACE_SECONDS)
    return rewritten(policy)


def rewritten(policy: Raw) -> Raw:
    """The policy as upstream's webhook writes it back: without words that say nothing, but always with a placement."""
    spec = mapping(policy.get("spec"))
    silent = {key for key in _SILENT_WHEN_FALSE if spec.get(key) is False}
    if isinstance(at(spec, "failover", "application"), dict):
        silent.discard("propagateDeps")  # what is said here is refused, so it has to be seen
    spoken = _without_empty_lists({key: value for key, value in spec.items() if key not in silent})
    spoken.setdefault("placement", {})
    return policy if spoken == spec or "spec" not in policy else {**policy, "spec": spoken}


def _without_empty_lists(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_empty_lists(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_empty_lists(inner) for key, inner in value.items() if inner != [] or key in _WRITTEN_WHEN_EMPTY
    }


def _imports_services(spec: Raw) -> bool:
    return any(
        selector.get("apiVersion") == "multicluster.x-k8s.io/v1alpha1" and selector.get("kind") == "ServiceImport"
        for _, selector in objects(spec.get("resourceSelectors"))
    )


def check_own_namespace(policy: Raw, old: Raw | None) -> list[Cause]:
    namespace = at(policy, "metadata", "namespace")
    return [
        invalid(
            f"spec.resourceSelectors[{i}].namespace",
            selector.get("namespace", ""),
            f"the namespace of resourceSelector should be the same as the policy's namespace({namespace})",
        )
        for i, selector in objects(at(policy, "spec", "resourceSelectors"))
        if selector.get("namespace") != namespace
    ]


def check_propagation(policy: Raw, old: Raw | None) -> list[Cause]:
    """An update of what never changes is refused with that alone, before anything else is looked at."""
    forbidden = next(_check_update(policy, old), None) if old is not None else None
    return [forbidden] if forbidden is not None else list(_check_spec(mapping(policy.get("spec"))))


def _check_update(policy: Raw, old: Raw) -> Iterator[Cause]:
    if at(policy, "spec", "schedulerName") != at(old, "spec", "schedulerName"):
        yield Cause("FieldValueForbidden", "the schedulerName should not be updated")
    for label in _PERMANENT_IDS:
        before = at(old, "metadata", "labels", label)
        if before is not None and at(policy, "metadata", "labels", label) != before:
            why = f"label {label} is immutable, it can only be set by the system during creation"
            yield Cause("FieldValueForbidden", why)


def _check_spec(spec: Raw) -> Iterator[Cause]:
    yield from check_placement(mapping(spec.get("placement")), "spec.placement")
    application = at(spec, "failover", "application")
    if isinstance(application, dict):
        if not spec.get("propagateDeps"):
            yield invalid("spec.propagateDeps", False, "application failover is set, propagateDeps must be true")
        yield from _check_application(application, "spec.failover.application")
    yield from _check_preserved(at(spec, "failover", "cluster"), "spec.failover.cluster")
    if spec.get("preemption") == "Always":
        yield from _check_names(spec)
    dispatching = at(spec, "suspension", "dispatching")
    if dispatching is True and texts(at(spec, "suspension", "dispatchingOnClusters", "clusterNames")):
        why = "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames"
        yield invalid("spec.suspension", in_order(spec["suspension"]), why)


def _check_names(spec: Raw) -> Iterator[Cause]:
    why = "name cannot be empty if preemption is Always, the empty name may cause unexpected resources preemption"
    for i, selector in objects(spec.get("resourceSelectors")):
        if not selector.get("name"):
            yield invalid(f"spec.resourceSelectors[{i}].name", "", why)


def _check_application(application: Raw, field: str) -> Iterator[Cause]:
    tolerated = at(application, "decisionConditions", "tolerationSeconds")
    if isinstance(tolerated, int) and tolerated < 0:
        yield invalid(f"{field}.decisionConditions.tolerationSeconds", tolerated, "must be greater than or equal to 0")
    states = at(application, "decisionConditions", "healthyState")
    for i, state in enumerate(texts(states)):
        if state not in ("Unhealthy", "Unknown"):
            yield not_supported(f"{field}.decisionConditions.healthyState[{i}]", state, ("Unhealthy", "Unknown"))
    if states == []:
        yield invalid(f"{field}.decisionConditions.healthyState", states, "must name at least one state")
    yield from _check_grace(application, f"{field}.gracePeriodSeconds")
    yield from _check_preserved(application, field)


def _check_grace(application: Raw, field: str) -> Iterator[Cause]:
    graceful, seconds = application.get("purgeMode") in GRACEFUL, application.get("gracePeriodSeconds")
    if seconds is not None and not graceful:
        yield invalid(field, seconds, "only takes effect when purgeMode is gracefully")
    if seconds is None and graceful:
        yield invalid(field, None, "should not be empty when purgeMode is gracefully")
    if isinstance(seconds, int) and seconds <= 0:
        yield invalid(field, seconds, "must be greater than 0")


def _check_preserved(behavior: object, field: str) -> Iterator[Cause]:
    for i, rule in objects(at(behavior, "statePreservation", "rules")):
        name = str(rule.get("aliasLabelName", ""))
        for fault in qualified_name_faults(name):
            yield invalid(f"{field}.statePreservation.rules[{i}].aliasLabelName", name, fault)
