"""What a story prints: changes of the fleet, and the state of the fleet when an expectation fails."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from trimtab.api.value import Raw
from trimtab.stories.expectations import HOST, ObjectPattern
from trimtab.stories.objects import StoryObjects

WriteLine = Callable[[float, str], None]
"""Receives the seconds since the start of the story and a line of text."""
READINESS = {"True": "is ready", "False": "is not ready"}


class StoryFailed(Exception):
    """An expectation of the story is not met, or a step could not be carried out."""

    def __init__(self, message: str, at: float, facts: list[str]) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.facts = facts


class FleetReport:
    """Describes clusters, bindings and workloads in lines of text."""

    def __init__(self, objects: StoryObjects, members: Callable[[], Iterable[str]]) -> None:
        self._objects = objects
        self._members = members

    async def summary(self) -> AsyncIterator[tuple[str, str]]:
        """The name of every cluster, binding and Deployment, and its state in a few words."""
        for obj in await self._objects.find(ObjectPattern(HOST, "Cluster", None, "*")):
            ready = READINESS.get(condition(obj, "Ready").get("status", "Unknown"), "has unknown readiness")
            taints = [f"{taint['key']}:{taint['effect']}" for taint in obj["spec"].get("taints") or ()]
            yield f"cluster {obj['metadata']['name']}", ready + (f", tainted {' '.join(taints)}" if taints else "")
        for kind in ("ResourceBinding", "ClusterResourceBinding"):
            for obj in await self._objects.find(ObjectPattern(HOST, kind, "*", "*")):
                yield f"{obj['metadata']['name']}", placement_text(obj)
        for obj in await self._objects.find(ObjectPattern(HOST, "Deployment", "*", "*")):
            status = obj.get("status") or {}
            wanted, ready = obj["spec"].get("replicas", 1), status.get("readyReplicas", 0)
            yield name_of(obj), f"has {ready} of {wanted} replicas ready"

    async def state(self) -> list[str]:
        """The state of the fleet in detail, to find out why an expectation failed."""
        lines = ["", "state:"]
        lines += [f"  {name} {text}" async for name, text in self.summary()]
        for obj in await self._objects.find(ObjectPattern(HOST, "ResourceBinding", "*", "*")):
            status, spec = obj.get("status") or {}, obj["spec"]
            lines += [
                f"  {obj['metadata']['name']}: {c['type']}={c['status']} {c.get('reason', '')}: {c.get('message', '')}"
                for c in status.get("conditions") or ()
            ]
            lines += [f"    held: {short_text(hold)}" for hold in status.get("holds") or ()]
            lines += [f"    evicting: {short_text(task)}" for task in spec.get("gracefulEvictionTasks") or ()]
        for name in self._members():
            for kind in ("Deployment", "StatefulSet"):
                for obj in await self._objects.find(ObjectPattern(name, kind, "*", "*")):
                    ready = (obj.get("status") or {}).get("readyReplicas", 0)
                    wanted = obj["spec"].get("replicas", 1)
                    lines.append(f"  {name}: {name_of(obj)} has {ready} of {wanted} replicas ready")
        events = await self._objects.find(ObjectPattern(HOST, "Event", "*", "*"))
        events.sort(key=lambda event: event.get("lastTimestamp") or "")
        lines += ["", "last events:"]
        lines += [f"  {e['reason']} {name_of_ref(e['involvedObject'])}: {e['message']}" for e in events[-10:]]
        return lines


class ChangeReport:
    """What changed in the fleet since it was looked at last."""

    def __init__(self, report: FleetReport) -> None:
        self._report = report
        self._known: dict[str, str] = {}

    async def lines(self) -> list[str]:
        """A line for everything that changed since the last call."""
        before, self._known = self._known, {name: text async for name, text in self._report.summary()}
        names = [*self._known, *(name for name in before if name not in self._known)]
        return [f"{name} {text}" for name in names if (text := self._known.get(name, "is deleted")) != before.get(name)]


def placement_text(binding: Raw) -> str:
    targets = binding["spec"].get("clusters") or ()
    shares = [f"{t['name']}={t['replicas']}" if t.get("replicas") else t["name"] for t in targets]
    text = f"is placed on {' '.join(shares)}" if shares else "is not placed"
    status = binding.get("status") or {}
    if holds := status.get("holds"):
        text += ", held in " + " ".join(f"{hold['cluster']}={hold.get('replicas', '')}" for hold in holds)
    if tasks := binding["spec"].get("gracefulEvictionTasks"):
        text += ", evicting from " + " ".join(task["fromCluster"] for task in tasks)
    return text


def condition(obj: Raw, type_: str) -> Raw:
    conditions: list[Raw] = (obj.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == type_), {})


def name_of(obj: Raw) -> str:
    metadata = obj["metadata"]
    return "/".join(part for part in (obj["kind"], metadata.get("namespace", ""), metadata["name"]) if part)


def name_of_ref(ref: Raw) -> str:
    return "/".join(part for part in (ref["kind"], ref.get("namespace", ""), ref.get("name", "")) if part)


def short_text(value: Any) -> str:
    """A value on one line, cut off after 200 characters."""
    if isinstance(value, dict) and "kind" in value and "metadata" in value:
        return name_of(value)
    if isinstance(value, list):
        inner = ", ".join(map(short_text, value[:8])) + (", ..." if len(value) > 8 else "")
        return f"[{inner}]"
    text = "missing" if value is None else str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def clock_text(at: float) -> str:
    whole = int(at)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
