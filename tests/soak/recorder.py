"""Watches the API servers of a fleet over HTTP and records what changes, across restarts of the servers."""

import asyncio
import time
from collections.abc import Callable

from soak.history import BudgetFact, DesiredFact, Fact, FaultFact, GapFact, MoveFact, PodFact, WantedFact
from soak.snapshot import app_of, is_ready
from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget, Move
from trimtab.api.value import Raw
from trimtab.client.client import Resource, resource_of
from trimtab.client.kube import KubeClient
from trimtab.errors import ApiError, Expired

PODS = Resource("", "v1", "pods", "Pod")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
RETRY_SECONDS = 0.2
OnChange = Callable[[Raw, bool], None]
"""Gets an object and whether it was deleted."""


class Recorder:
    """Collects the history of a run."""

    def __init__(self) -> None:
        self.history: list[Fact] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._began = time.monotonic()

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    def record_fault(self, target: str, what: str) -> None:
        self.history.append(FaultFact(self.now, target, what))

    def follow_host(self, client: KubeClient) -> None:
        self._follow(client, "plane", DEPLOYMENTS, self._on_template)
        self._follow(client, "plane", resource_of(kind_of(Move)), self._on_move)
        self._follow(client, "plane", resource_of(kind_of(DisruptionBudget)), self._on_budget)

    def follow_member(self, name: str, client: KubeClient) -> None:
        self._follow(client, name, DEPLOYMENTS, lambda raw, deleted: self._on_deployment(name, raw, deleted))
        self._follow(client, name, PODS, lambda raw, deleted: self._on_pod(name, raw, deleted))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    def _follow(self, client: KubeClient, source: str, resource: Resource, on_change: OnChange) -> None:
        task = asyncio.get_running_loop().create_task(self._list_and_watch(client, source, resource, on_change))
        self._tasks.append(task)

    async def _list_and_watch(self, client: KubeClient, source: str, resource: Resource, on_change: OnChange) -> None:
        """Watch for ever; when a watch cannot be resumed, list again and record the gap."""
        known: dict[tuple[str, str], Raw] = {}
        revision = ""
        while True:
            try:
                if not revision:
                    revision = await self._list(client, source, resource, known, on_change)
                async for events in client.watch(resource, revision=revision):
                    for event in events:
                        metadata = event.object["metadata"]
                        revision = metadata["resourceVersion"]
                        if event.type == "BOOKMARK":
                            continue
                        key = (metadata.get("namespace", ""), metadata["name"])
                        known[key] = event.object
                        if event.type == "DELETED":
                            del known[key]
                        on_change(event.object, event.type == "DELETED")
            except Expired:
                revision = ""
            except (ApiError, OSError, TimeoutError):
                pass
            await asyncio.sleep(RETRY_SECONDS)

    async def _list(
        self,
        client: KubeClient,
        source: str,
        resource: Resource,
        known: dict[tuple[str, str], Raw],
        on_change: OnChange,
    ) -> str:
        listing = await client.list(resource)
        found = {(raw["metadata"].get("namespace", ""), raw["metadata"]["name"]): raw for raw in listing.items}
        if known:
            self.history.append(GapFact(self.now, source))
        for key in known.keys() - found.keys():
            on_change(known[key], True)
        for raw in found.values():
            on_change(raw, False)
        known.clear()
        known.update(found)
        return listing.revision

    def _on_pod(self, member: str, raw: Raw, deleted: bool) -> None:
        if app := app_of(raw):
            deleting = deleted or "deletionTimestamp" in raw["metadata"]
            fact = PodFact(self.now, member, raw["metadata"]["name"], app, is_ready(raw) and not deleted, deleting)
            self.history.append(fact)

    def _on_deployment(self, member: str, raw: Raw, deleted: bool) -> None:
        replicas = None if deleted else raw["spec"].get("replicas")
        self.history.append(DesiredFact(self.now, member, raw["metadata"]["name"], replicas))

    def _on_template(self, raw: Raw, deleted: bool) -> None:
        gone = deleted or "deletionTimestamp" in raw["metadata"]
        replicas = None if gone else raw["spec"].get("replicas")
        self.history.append(WantedFact(self.now, raw["metadata"]["name"], replicas))

    def _on_move(self, raw: Raw, deleted: bool) -> None:
        if not deleted:
            self.history.append(MoveFact(self.now, raw))

    def _on_budget(self, raw: Raw, deleted: bool) -> None:
        if not deleted:
            self.history.append(BudgetFact(self.now, raw))
