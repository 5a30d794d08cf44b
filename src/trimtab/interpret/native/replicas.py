"""The desired replicas of a native workload, what each requires, and how to change their number."""

from collections.abc import Callable

from trimtab.api.paths import int_at, object_at, value_at, with_value
from trimtab.api.value import Raw
from trimtab.interpret.podspec import replica_requirements

Replicas = tuple[int, Raw | None]


def _workload_replicas(obj: Raw) -> Replicas:
    return int_at(obj, "spec", "replicas"), replica_requirements(object_at(obj, "spec", "template"))


def _job_replicas(obj: Raw) -> Replicas:
    parallelism = int_at(obj, "spec", "parallelism")
    if value_at(obj, "spec", "completions") is not None:
        parallelism = min(parallelism, int_at(obj, "spec", "completions"))
    return parallelism, replica_requirements(object_at(obj, "spec", "template"))


def _pod_replicas(obj: Raw) -> Replicas:
    return 1, replica_requirements(obj)


REPLICAS: dict[tuple[str, str], Callable[[Raw], Replicas]] = {
    ("apps/v1", "Deployment"): _workload_replicas,
    ("apps/v1", "ReplicaSet"): _workload_replicas,
    ("apps/v1", "StatefulSet"): _workload_replicas,
    ("batch/v1", "Job"): _job_replicas,
    ("v1", "Pod"): _pod_replicas,
}


def _replica_reviser(field: str) -> Callable[[Raw, int], Raw]:
    def revise(obj: Raw, replicas: int) -> Raw:
        # a template that omits the field relies on the member's own defaulting
        return with_value(obj, replicas, "spec", field) if field in object_at(obj, "spec") else obj

    return revise


REVISE: dict[tuple[str, str], Callable[[Raw, int], Raw]] = {
    ("apps/v1", "Deployment"): _replica_reviser("replicas"),
    ("apps/v1", "ReplicaSet"): _replica_reviser("replicas"),
    ("apps/v1", "StatefulSet"): _replica_reviser("replicas"),
    ("batch/v1", "Job"): _replica_reviser("parallelism"),
}
