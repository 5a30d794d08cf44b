"""The desired replicas of a native workload, what each requires, and how to change their number."""

from collections.abc import Callable

from trimtab.api.paths import dig, number, planted, table
from trimtab.api.value import Raw
from trimtab.interpret.podspec import requirements

Replicas = tuple[int, Raw | None]


def _from_spec(obj: Raw) -> Replicas:
    return number(obj, "spec", "replicas"), requirements(table(obj, "spec", "template"))


def _job(obj: Raw) -> Replicas:
    parallelism = number(obj, "spec", "parallelism")
    if dig(obj, "spec", "completions") is not None:
        parallelism = min(parallelism, number(obj, "spec", "completions"))
    return parallelism, requirements(table(obj, "spec", "template"))


def _pod(obj: Raw) -> Replicas:
    return 1, requirements(obj)


REPLICAS: dict[tuple[str, str], Callable[[Raw], Replicas]] = {
    ("apps/v1", "Deployment"): _from_spec,
    ("apps/v1", "ReplicaSet"): _from_spec,
    ("apps/v1", "StatefulSet"): _from_spec,
    ("batch/v1", "Job"): _job,
    ("v1", "Pod"): _pod,
}


def _revise(field: str) -> Callable[[Raw, int], Raw]:
    def revise(obj: Raw, replicas: int) -> Raw:
        # a template that omits the field relies on the member's own defaulting
        return planted(obj, replicas, "spec", field) if field in table(obj, "spec") else obj

    return revise


REVISE: dict[tuple[str, str], Callable[[Raw, int], Raw]] = {
    ("apps/v1", "Deployment"): _revise("replicas"),
    ("apps/v1", "ReplicaSet"): _revise("replicas"),
    ("apps/v1", "StatefulSet"): _revise("replicas"),
    ("batch/v1", "Job"): _revise("parallelism"),
}
