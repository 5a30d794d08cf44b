"""The ComponentStatuses of a simulated cluster: the parts that run in this process."""

from collections.abc import Iterator

from trimtab.api.value import Raw


def component_statuses(*, has_scheduler: bool) -> Iterator[Raw]:
    """Whoever is answered reaches the API server, and its store and controllers run as long as it does."""
    yield _status("scheduler", error="" if has_scheduler else "the cluster has no scheduler")
    yield _status("controller-manager")
    yield _status("etcd-0")


def _status(name: str, error: str = "") -> Raw:
    shown = {"status": "False", "error": error} if error else {"status": "True", "message": "ok"}
    return {
        "apiVersion": "v1",
        "kind": "ComponentStatus",
        "metadata": {"name": name},
        "conditions": [{"type": "Healthy", **shown}],
    }
