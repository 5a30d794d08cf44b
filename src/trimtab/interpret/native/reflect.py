"""Which part of a member object's status is reported to the control plane."""

from collections.abc import Callable
from typing import Any

from trimtab.api.paths import int_at, object_at, string_at, value_at
from trimtab.api.value import Raw

TEMPLATE_GENERATION = "resourcetemplate.karmada.io/generation"

Reflector = Callable[[Raw], Raw | None]

# A leading "!" marks a number that Kubernetes writes even when it is zero.
DEPLOYMENT = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
REPLICA_SET = ("!replicas", "readyReplicas", "availableReplicas")
STATEFUL_SET = ("!availableReplicas", "currentReplicas", "readyReplicas", "!replicas", "updatedReplicas")
DAEMON_SET = (
    "!currentNumberScheduled",
    "!desiredNumberScheduled",
    "numberAvailable",
    "!numberMisscheduled",
    "!numberReady",
    "updatedNumberScheduled",
    "numberUnavailable",
)
BUDGET = ("!disruptionsAllowed", "!expectedPods", "!desiredHealthy", "!currentHealthy")
AUTOSCALER = ("currentReplicas", "!desiredReplicas")


class NoTemplateGeneration(Exception):
    """The member object does not name the generation of the template that it was made from."""


def number_fields(status: Raw, fields: tuple[str, ...]) -> Raw:
    """The numbers named by `fields`; zeros are omitted where Kubernetes omits them."""
    found: Raw = {}
    for field in fields:
        name = field.lstrip("!")
        value = int_at(status, name)
        if value or name != field:
            found[name] = value
    return found


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


def _workload_reflector(fields: tuple[str, ...], *, strict: bool) -> Reflector:
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
    return number_fields(status, ("active", "succeeded", "failed")) | non_empty_fields(
        status, "conditions", "startTime", "completionTime"
    )


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
    observed = ("observedGeneration",)
    stateful_set = STATEFUL_SET if upstream else STATEFUL_SET + observed
    return {
        ("apps/v1", "Deployment"): _workload_reflector(DEPLOYMENT + observed, strict=upstream),
        ("apps/v1", "ReplicaSet"): _workload_reflector(REPLICA_SET + observed, strict=upstream),
        ("apps/v1", "DaemonSet"): _workload_reflector(DAEMON_SET + observed, strict=upstream),
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
