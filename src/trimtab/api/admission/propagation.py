"""Defaulting and validation of propagation policies, as in Karmada's webhook."""

from collections.abc import Iterator
from typing import Any

from trimtab.api.admission.field_order import in_declared_order
from trimtab.api.admission.placement import check_placement, fill_placement
from trimtab.api.field_errors import invalid, not_supported
from trimtab.api.names import qualified_name_faults
from trimtab.api.paths import indexed_objects, map_objects_at, object_at, strings_in, value_at, with_value
from trimtab.api.value import Raw
from trimtab.errors import Cause

GRACEFUL_PURGE_MODES = ("Gracefully", "Graciously")
_PERMANENT_IDS = ("propagationpolicy.karmada.io/permanent-id", "clusterpropagationpolicy.karmada.io/permanent-id")
_GRACE_SECONDS = 600
_OMITTED_WHEN_FALSE = ("propagateDeps", "association")
_WRITTEN_WHEN_EMPTY = ("resourceSelectors", "rules", "healthyState")


def default_selector_namespaces(policy: Raw) -> Raw:
    """Sets the policy's namespace on selectors without one."""
    namespace = value_at(policy, "metadata", "namespace")

    def fill(selector: Raw) -> Raw:
        return selector if selector.get("namespace") or not namespace else {**selector, "namespace": namespace}

    return map_objects_at(policy, ("spec", "resourceSelectors"), fill)


def fill_propagation(policy: Raw) -> Raw:
    spec = object_at(policy, "spec")
    placement = object_at(spec, "placement")
    filled = fill_placement(placement)
    if filled is not placement:
        policy = with_value(policy, filled, "spec", "placement")
    application = value_at(spec, "failover", "application")
    if "propagateDeps" not in spec and (isinstance(application, dict) or _imports_services(spec)):
        policy = with_value(policy, True, "spec", "propagateDeps")
    if (
        object_at(application).get("purgeMode") in GRACEFUL_PURGE_MODES
        and object_at(application).get("gracePeriodSeconds") is None
    ):
        policy = with_value(policy, _GRACE_SECONDS, "spec", "failover", "application", "gracePeriodSeconds")
    return as_written_by_webhook(policy)


def as_written_by_webhook(policy: Raw) -> Raw:
    """The policy as upstream's webhook encodes it: without false and empty fields, but always with a placement."""
    spec = object_at(policy, "spec")
    omitted = {key for key in _OMITTED_WHEN_FALSE if spec.get(key) is False}
    if isinstance(value_at(spec, "failover", "application"), dict):
        omitted.discard("propagateDeps")  # kept, because validation rejects an explicit false here
    written = _without_empty_lists({key: value for key, value in spec.items() if key not in omitted})
    written.setdefault("placement", {})
    return policy if written == spec or "spec" not in policy else {**policy, "spec": written}


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
        for _, selector in indexed_objects(spec.get("resourceSelectors"))
    )


def check_selector_namespaces(policy: Raw, old: Raw | None) -> list[Cause]:
    namespace = value_at(policy, "metadata", "namespace")
    return [
        invalid(
            f"spec.resourceSelectors[{i}].namespace",
            selector.get("namespace", ""),
            f"the namespace of resourceSelector should be the same as the policy's namespace({namespace})",
        )
        for i, selector in indexed_objects(value_at(policy, "spec", "resourceSelectors"))
        if selector.get("namespace") != namespace
    ]


def check_propagation(policy: Raw, old: Raw | None) -> list[Cause]:
    """A change of an immutable field is reported alone, before any other check."""
    forbidden = next(_check_update(policy, old), None) if old is not None else None
    return [forbidden] if forbidden is not None else list(_check_spec(object_at(policy, "spec")))


def _check_update(policy: Raw, old: Raw) -> Iterator[Cause]:
    if value_at(policy, "spec", "schedulerName") != value_at(old, "spec", "schedulerName"):
        yield Cause("FieldValueForbidden", "the schedulerName should not be updated")
    for label in _PERMANENT_IDS:
        before = value_at(old, "metadata", "labels", label)
        if before is not None and value_at(policy, "metadata", "labels", label) != before:
            detail = f"label {label} is immutable, it can only be set by the system during creation"
            yield Cause("FieldValueForbidden", detail)


def _check_spec(spec: Raw) -> Iterator[Cause]:
    yield from check_placement(object_at(spec, "placement"), "spec.placement")
    application = value_at(spec, "failover", "application")
    if isinstance(application, dict):
        if not spec.get("propagateDeps"):
            yield invalid("spec.propagateDeps", False, "application failover is set, propagateDeps must be true")
        yield from _check_application(application, "spec.failover.application")
    yield from _check_state_preservation(value_at(spec, "failover", "cluster"), "spec.failover.cluster")
    if spec.get("preemption") == "Always":
        yield from _check_names(spec)
    dispatching = value_at(spec, "suspension", "dispatching")
    if dispatching is True and strings_in(value_at(spec, "suspension", "dispatchingOnClusters", "clusterNames")):
        detail = "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames"
        yield invalid("spec.suspension", in_declared_order(spec["suspension"]), detail)


def _check_names(spec: Raw) -> Iterator[Cause]:
    detail = "name cannot be empty if preemption is Always, the empty name may cause unexpected resources preemption"
    for i, selector in indexed_objects(spec.get("resourceSelectors")):
        if not selector.get("name"):
            yield invalid(f"spec.resourceSelectors[{i}].name", "", detail)


def _check_application(application: Raw, field: str) -> Iterator[Cause]:
    tolerated = value_at(application, "decisionConditions", "tolerationSeconds")
    if isinstance(tolerated, int) and tolerated < 0:
        yield invalid(f"{field}.decisionConditions.tolerationSeconds", tolerated, "must be greater than or equal to 0")
    states = value_at(application, "decisionConditions", "healthyState")
    for i, state in enumerate(strings_in(states)):
        if state not in ("Unhealthy", "Unknown"):
            yield not_supported(f"{field}.decisionConditions.healthyState[{i}]", state, ("Unhealthy", "Unknown"))
    if states == []:
        yield invalid(f"{field}.decisionConditions.healthyState", states, "must name at least one state")
    yield from _check_grace(application, f"{field}.gracePeriodSeconds")
    yield from _check_state_preservation(application, field)


def _check_grace(application: Raw, field: str) -> Iterator[Cause]:
    graceful, seconds = application.get("purgeMode") in GRACEFUL_PURGE_MODES, application.get("gracePeriodSeconds")
    if seconds is not None and not graceful:
        yield invalid(field, seconds, "only takes effect when purgeMode is gracefully")
    if seconds is None and graceful:
        yield invalid(field, None, "should not be empty when purgeMode is gracefully")
    if isinstance(seconds, int) and seconds <= 0:
        yield invalid(field, seconds, "must be greater than 0")


def _check_state_preservation(behavior: object, field: str) -> Iterator[Cause]:
    for i, rule in indexed_objects(value_at(behavior, "statePreservation", "rules")):
        name = str(rule.get("aliasLabelName", ""))
        for fault in qualified_name_faults(name):
            yield invalid(f"{field}.statePreservation.rules[{i}].aliasLabelName", name, fault)
