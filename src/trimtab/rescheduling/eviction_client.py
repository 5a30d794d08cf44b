"""Evicts pods through the standard eviction subresource, which every API server supports."""

from collections.abc import Mapping
from typing import cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.decide.pods.budgets.eviction import SEVERAL_BUDGETS
from trimtab.decide.pods.budgets.pod_budgets import selects
from trimtab.errors import ApiError, InternalError, TimedOut, TooManyRequests, Unavailable, Unclassified

PODS = Resource("", "v1", "pods", "Pod")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
RETRY_SECONDS = 5.0
RETRYABLE = (TooManyRequests, Unclassified, InternalError, Unavailable, TimedOut, OSError, TimeoutError)
"""Budgets may allow it later, and an unavailable API server returns."""


def eviction_body(
    pod: Raw,
    *,
    by: str = "",
    annotations: Mapping[str, str] | None = None,
    grace: int | None = None,
    dry_run: bool = False,
) -> Raw:
    """The Eviction of exactly this pod (by uid), not of another pod with its name."""
    metadata = pod["metadata"]
    noted = {**({"trimtab.dev/requested-by": by} if by else {}), **(annotations or {})}
    options: Raw = {"preconditions": {"uid": metadata["uid"]}}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if dry_run:
        options["dryRun"] = ["All"]
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "annotations": noted},
        "deleteOptions": options,
    }


async def evict(client: Client, pod: Raw, body: Raw) -> None:
    metadata = pod["metadata"]
    await client.submit(PODS, metadata["namespace"], metadata["name"], "eviction", body)


def refusal_message(fault: ApiError) -> str:
    """Why an eviction was refused: the causes of the budgets where there are any."""
    return "; ".join(cause.message for cause in fault.causes) or fault.message


async def detailed_refusal_message(client: Client, pod: Raw, fault: ApiError) -> str:
    """The same; where the API server refuses several budgets without naming them, they are listed."""
    if SEVERAL_BUDGETS not in fault.message:
        return refusal_message(fault)
    listed = (await client.list(BUDGETS, pod["metadata"]["namespace"])).items
    found = [cast("PodDisruptionBudget", kind_of(PodDisruptionBudget).decode(one)) for one in listed]
    guarded = cast("Pod", kind_of(Pod).decode(pod))
    names = sorted(budget.name for budget in found if selects(budget, guarded))
    return f"BlockedByOverlap: the budgets {' and '.join(names)} select it, and this API server supports only one"
