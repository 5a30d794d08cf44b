"""Which part of a member object's status is reported to the control plane."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trimtab.api.paths import int_at, object_at, string_at, value_at
from trimtab.api.value import Raw

TEMPLATE_GENERATION = "resourcetemplate.karmada.io/generation"

Reflector = Callable[[Raw], Raw | None]

NumberFields = Mapping[str, bool]
"""Names of numbers in a status, each with whether Kubernetes writes it even when it is zero."""


def _number_fields_of(*fields: str) -> NumberFields:
    """A leading "!" marks a number that Kubernetes writes even when it is zero."""
    return {field.removeprefix("!"): field.startswith("!") for field in fields}


DEPLOYMENT = _number_fields_of(
    "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"
)
REPLICA_SET = _number_fields_of("!replicas", "readyReplicas", "availableReplicas")
STATEFUL_SET = _number_fields_of(
    "!availableReplicas", "currentReplicas", "readyReplicas", "!replicas", "updatedReplicas"
)
DAEMON_SET = _number_fields_of(
    "!currentNumberScheduled",
    "!desiredNumberScheduled",
    "numberAvailable",
    "!numberMisscheduled",
    "!numberReady",
    "updatedNumberScheduled",
    "numberUnavailable",
)
BUDGET = _number_fields_of("!disruptionsAllowed", "!expectedPods", "!desiredHealthy", "!currentHealthy")
AUTOSCALER = _number_fields_of("currentReplicas", "!desiredReplicas")
JOB = _number_fields_of("active", "succeeded", "failed")
_OBSERVED_GENERATION = _number_fields_of("observedGeneration")


class NoTemplateGeneration(Exception):
    """The member object does not name the generation of the template that it was made from."""


def read_numbers(status: Raw, names: Iterable[str]) -> dict[str, int]:
    """The numbers with these names, 0 where there is none."""
    found = {}
    for name in names:
        value = status.get(name, 0)
        found[name] = value if type(value) is int else int_at(status, name)
    return found


def number_fields(status: Raw, fields: NumberFields) -> Raw:
    """The numbers named by `fields`; zeros are omitted where Kubernetes omits them."""
    return {name: value for name, value in read_numbers(status, fields).items() if value or fields[name]}


def non_empty_fields(status: Raw, *fields: str) -> Raw:
    return {field: status[field] for field in fields if status.get(field)}


def template_generation(obj: Raw, *, strict: bool) -> int:
    """Upstream fails without the annotation; otherwise a missing one counts as 0."""
    annotation = string_at(obj, "metadata", "annotations", TEMPLATE_GENERATION)
    if annotation.lstrip("-").isdigit():
        return int(annotation)
    if strict:
        raise NoTemplateGeneration(f"the annotation {TEMPLATE_GENERATION} is missing or not a number")
    return 0


def _workload_reflector(fields: NumberFields, *, strict: bool) -> Reflector:
    def reflect(obj: Raw) -> Raw | None:
        generations = {
            "generation": int_at(obj, "metadata", "generation"),
            "resourceTemplateGeneration": template_generation(obj, strict=strict),
        }
        kept = number_fields(object_at(obj, "status"), fields) | {
            key: value for key, value in generations.items() if value
        }
        return kept or None

    return reflect


def _reflect_job(obj: Raw) -> Raw:
    status = object_at(obj, "status")
    return number_fields(status, JOB) | non_empty_fields(status, "conditions", "startTime", "completionTime")


def _reflect_service(obj: Raw) -> Raw | None:
    if string_at(obj, "spec", "type") != "LoadBalancer":
        return None
    return {"loadBalancer": object_at(obj, "status", "loadBalancer")}


def _reflect_budget(obj: Raw) -> Raw:
    status = object_at(obj, "status")
    return number_fields(status, BUDGET) | non_empty_fields(status, "disruptedPods")


def _reflect_autoscaler(obj: Raw) -> Raw:
    kept: dict[str, Any] = number_fields(object_at(obj, "status"), AUTOSCALER)
    return kept | {"currentMetrics": None}


def reflectors(*, upstream: bool) -> dict[tuple[str, str], Reflector]:
    """One rule per kind. Upstream drops a StatefulSet's observedGeneration, so its template is never up to date."""
    stateful_set = STATEFUL_SET if upstream else {**STATEFUL_SET, **_OBSERVED_GENERATION}
    return {
        ("apps/v1", "Deployment"): _workload_reflector({**DEPLOYMENT, **_OBSERVED_GENERATION}, strict=upstream),
        ("apps/v1", "ReplicaSet"): _workload_reflector({**REPLICA_SET, **_OBSERVED_GENERATION}, strict=upstream),
        ("apps/v1", "DaemonSet"): _workload_reflector({**DAEMON_SET, **_OBSERVED_GENERATION}, strict=upstream),
        ("apps/v1", "StatefulSet"): _workload_reflector(stateful_set, strict=upstream),
        ("batch/v1", "Job"): _reflect_job,
        ("v1", "Service"): _reflect_service,
        ("policy/v1", "PodDisruptionBudget"): _reflect_budget,
        ("autoscaling/v2", "HorizontalPodAutoscaler"): _reflect_autoscaler,
    }


def whole_status(obj: Raw) -> Raw | None:
    """The status that is reflected for a kind without a rule of its own."""
    status = value_at(obj, "status")
    return status if isinstance(status, dict) else None
