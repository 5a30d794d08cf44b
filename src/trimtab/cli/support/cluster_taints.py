"""Sets and removes taints of clusters by name, retried when somebody else writes the cluster meanwhile."""

import contextlib
from datetime import datetime

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.value import Raw
from trimtab.cli.support.clusters import get_cluster
from trimtab.client.client import Client, resource_of
from trimtab.clock import WallClock, timestamp
from trimtab.dryrun.change import TaintChange
from trimtab.errors import Conflict


async def update_taints(client: Client, change: TaintChange, now: datetime | None = None) -> bool:
    """Set or remove a taint; returns whether the cluster changed."""
    resource = resource_of(kind_of(Cluster))
    while True:
        raw = await get_cluster(client, change.cluster)
        taints = raw["spec"].get("taints") or []
        wanted = changed_taints(taints, change, now or WallClock().now())
        if wanted == taints:
            return False
        patch: Raw = {
            "metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]},
            "spec": {"taints": wanted or None},
        }
        with contextlib.suppress(Conflict):
            await client.patch(resource, "", change.cluster, patch)
            return True


def changed_taints(taints: list[Raw], change: TaintChange, now: datetime) -> list[Raw]:
    """The taints after the change; a NoExecute taint gets the time from which tolerations are counted."""
    if change.remove:
        return [t for t in taints if t["key"] != change.key or change.effect not in ("", t["effect"])]
    same = [t for t in taints if (t["key"], t["effect"]) == (change.key, change.effect)]
    if any((t.get("value") or "") == change.value for t in same):
        return taints
    taint: Raw = {"key": change.key, "effect": change.effect}
    if change.value:
        taint["value"] = change.value
    if change.effect == "NoExecute":
        taint["timeAdded"] = timestamp(now)
    return [*(t for t in taints if t not in same), taint]
