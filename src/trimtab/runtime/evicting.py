"""Asking an API server to evict a pod, in words that every API server understands."""

from collections.abc import Mapping

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.errors import ApiFault

PODS = Resource("", "v1", "pods", "Pod")


def eviction(pod: Raw, *, by: str = "", annotations: Mapping[str, str] | None = None, grace: int | None = None) -> Raw:
    """The Eviction of exactly this pod, not of another that took its name."""
    metadata = pod["metadata"]
    noted = {**({"trimtab.dev/requested-by": by} if by else {}), **(annotations or {})}
    options: Raw = {"preconditions": {"uid": metadata["uid"]}}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "annotations": noted},
        "deleteOptions": options,
    }


async def evict(client: Client, pod: Raw, wish: Raw) -> None:
    metadata = pod["metadata"]
    await client.submit(PODS, metadata["namespace"], metadata["name"], "eviction", wish)


def why(fault: ApiFault) -> str:
    """Why an eviction was refused: the budgets' own words where there are any."""
    return "; ".join(cause.message for cause in fault.causes) or fault.message
