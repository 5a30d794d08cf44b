"""`make flows`: replays recorded flows of a live Karmada control plane and reports every difference.

The flow runs on virtual time against the embedded server with simulated members of the recorded sizes. Objects get
the recorded uids, because uids break ties in a division.

In the profile `upstream` everything is compared, events too. In the profile `trimtab` (`--profile trimtab`) every step
must end in the same state except for listed intentional differences, and without a service gap: at no change are
fewer replicas ready than both before and after the step.
"""

import argparse
import asyncio
import json
import logging
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import yaml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from compat.flow_availability import AvailabilityObserver, Workload  # noqa: E402
from compat.flow_compare import (  # noqa: E402 - the tests directory has to be importable first
    Difference,
    ObjectIds,
    compare_objects,
    generations,
    mask_ids,
)

from trimtab.api.profile import PROFILES, UPSTREAM, Profile  # noqa: E402
from trimtab.api.selectors import LabelSelector  # noqa: E402
from trimtab.client.client import Client, Resource  # noqa: E402
from trimtab.clock import LoopClock, run_virtually  # noqa: E402
from trimtab.embedded_fleet import EmbeddedFleet  # noqa: E402
from trimtab.errors import ApiError  # noqa: E402
from trimtab.interpret.names import work_name  # noqa: E402
from trimtab.server.admission.peer_webhooks import PeerWebhooks  # noqa: E402
from trimtab.server.apiserver import ApiServer, ApiServerSettings  # noqa: E402
from trimtab.server.local import LocalClient  # noqa: E402
from trimtab.simulate.fleet import flows_fleet  # noqa: E402
from trimtab.simulate.kubelets.behaviour import NEVER_READY, BehaviourOverride  # noqa: E402
from trimtab.store.store import Store  # noqa: E402

FLOWS = HERE / "flows_data"
EXCEPTIONS = {
    "upstream": HERE / "flow_exceptions.yaml",
    "trimtab": HERE / "flow_exceptions_trimtab.yaml",
}
HOST_KINDS = (
    "Deployment",
    "StatefulSet",
    "Job",
    "ConfigMap",
    "Secret",
    "ClusterRole",
    "PropagationPolicy",
    "ClusterPropagationPolicy",
    "OverridePolicy",
    "ClusterOverridePolicy",
    "ResourceBinding",
    "ClusterResourceBinding",
    "Work",
    "WorkloadRebalancer",
    "ResourceInterpreterCustomization",
)
EVENTS = Resource("", "v1", "events", "Event")
MOVES = Resource("trimtab.dev", "v1alpha1", "moves", "Move")
MEMBER_KINDS = ("Deployment", "StatefulSet", "Job", "ConfigMap", "Secret", "ClusterRole")
SETTLE_SECONDS = 12.0
"""At least one period of status collection, so that every change of a step is observed everywhere."""
PACE_SECONDS = 0.02
"""Pause between two objects of a step, as recorded: the order of a template and its policy matters."""
OBSERVATIONS = ("InterpretHealthSucceed", "ReflectStatusSucceed", "AggregateStatusSucceed")
MAX_EVENTS_PER_SOURCE = 25
RECORDED_SETTINGS = {
    "failover": True,
    "cluster-failure-threshold": 10,
    "cluster-success-threshold": 10,
    "eviction-rate": 1.5,
    "policy-preemption": False,
}


class AllowedDifference(NamedTuple):
    """A rule for an intentional difference, and its reason."""

    where: str
    path: str
    reason: str
    added: bool = False
    """Covers only values that the recording does not have, such as our own fields."""

    def covers(self, difference: Difference) -> bool:
        return fnmatch(difference.path, self.path) and not (self.added and difference.expected is not None)


def allowed_differences(profile: str = "upstream") -> list[AllowedDifference]:
    return [AllowedDifference(**rule) for rule in yaml.safe_load(EXCEPTIONS[profile].read_text()) or []]


class RecordedUids:
    """Gives an object its recorded uid; other objects get uids that no recording has."""

    def __init__(self, recorded: dict[str, str]) -> None:
        self._recorded = recorded
        self._count = 0

    def __call__(self) -> str:
        self._count += 1
        return f"00000000-0000-4000-8000-{self._count:012d}"

    def uid_of(self, obj: dict[str, Any]) -> str | None:
        metadata = obj["metadata"]
        place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        return self._recorded.get(f"{obj['kind']}/{place}{metadata.get('name', '')}")


class UidAdmission:
    """Sets the recorded uid of an object on creation."""

    def __init__(self, uids: RecordedUids) -> None:
        self._uids = uids

    async def mutate(self, attributes: Any, obj: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
        uid = self._uids.uid_of(obj) if attributes.operation == "CREATE" else None
        if not uid:
            return obj
        # The selector and labels of a Job also contain its uid.
        text = json.dumps(obj).replace(obj["metadata"]["uid"], uid) if obj["metadata"].get("uid") else json.dumps(obj)
        created: dict[str, Any] = json.loads(text)
        return {**created, "metadata": {**created["metadata"], "uid": uid}}

    async def validate(self, attributes: Any, obj: dict[str, Any] | None, old: dict[str, Any] | None) -> None:
        """Nothing is refused."""


class FlowEnvironment(Protocol):
    """The environment of a flow: a host, its members, and how long to wait for them."""

    @property
    def client(self) -> Client: ...

    @property
    def members(self) -> Mapping[str, Client]:
        """Clients of the members as users have them."""
        ...

    def direct_client(self, member: str) -> Client:
        """A client of the member that works even while its API is unreachable."""
        ...

    async def stop_api(self, member: str) -> None: ...

    async def start_api(self, member: str) -> None: ...

    async def settle(self, seconds: float, compare: Callable[[], Awaitable[list[Difference]]]) -> list[Difference]:
        """Wait as long as a step that took `seconds` when recorded requires, then compare."""
        ...


class EmbeddedEnvironment:
    """The embedded server and simulated members, on virtual time."""

    def __init__(self, fleet: EmbeddedFleet) -> None:
        self._fleet = fleet
        self.client: Client = fleet.client

    @property
    def members(self) -> Mapping[str, Client]:
        return {member.name: member.client for member in self._fleet.world}

    def direct_client(self, member: str) -> Client:
        return LocalClient(self._fleet.world[member].server)

    async def stop_api(self, member: str) -> None:
        self._fleet.world[member].stop_api()

    async def start_api(self, member: str) -> None:
        self._fleet.world[member].start_api()

    async def settle(self, seconds: float, compare: Callable[[], Awaitable[list[Difference]]]) -> list[Difference]:
        await asyncio.sleep(max(SETTLE_SECONDS, seconds + 1))
        return await compare()


def recorded_readiness(member: str) -> BehaviourOverride:
    """Keep pods unready that were unready on this member in the recording, where a label named the member."""
    selector = LabelSelector(match_labels={"fakelet/notready-on": member})
    return BehaviourOverride("recorded-readiness", NEVER_READY, selector=selector)


class RecordedFlow:
    """Replays one recorded flow."""

    def __init__(self, folder: Path, profile: Profile = UPSTREAM, **options: Any) -> None:
        """`options` are passed to the embedded fleet."""
        self.folder = folder
        self._options = options
        self.profile = profile
        self.observer: AvailabilityObserver | None = None
        """Counts ready replicas, where the environment allows it."""
        self.script = yaml.safe_load((folder / "input.yaml").read_text())
        self.expect = json.loads((folder / "expect.json").read_text())
        self.namespace: str = self.script["namespace"]
        self._event_counts: dict[str, int] = {}
        self._foreign_works: set[str] = set()
        self.ids = ObjectIds()
        """Kept over all steps: later objects may refer to deleted ones."""

    def run(self) -> list[Difference]:
        return run_virtually(self._run())

    async def _run(self) -> list[Difference]:
        clock = LoopClock()
        uids = RecordedUids(self.expect["uids"])
        host = ApiServer(
            Store(), ApiServerSettings(clock=clock, plugins=[PeerWebhooks(uids), UidAdmission(uids)], new_uid=uids)
        )
        await host.start()
        fleet = EmbeddedFleet(
            flows_fleet(), host=host, clock=clock, profile=self.profile, settings=RECORDED_SETTINGS, **self._options
        )
        await fleet.start()
        for member in fleet.world:
            member.kubelets.override_behaviour(recorded_readiness(member.name))
        self.observer = AvailabilityObserver({member.name: member.server.store for member in fleet.world})
        self.observer.start()
        try:
            await asyncio.sleep(30)
            await self.prepare(EmbeddedEnvironment(fleet))
            await asyncio.sleep(SETTLE_SECONDS)
            return [d async for d in self.steps()]
        finally:
            self.observer.stop()
            await fleet.stop()
            await host.stop()

    async def prepare(self, environment: FlowEnvironment) -> None:
        """Create the namespace of the flow and wait until it is synced to the members."""
        self.environment = environment
        self.resources = {r.kind: r for r in await environment.client.resources()}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        await environment.client.create(self.resources["Namespace"], namespace)
        # Ignore Works and events that earlier flows in the same environment left.
        works = [work["metadata"]["name"] for work in (await environment.client.list(self.resources["Work"])).items]
        known_events = [event["involvedObject"]["name"] for event in (await environment.client.list(EVENTS)).items]
        self._foreign_works = {*works, *known_events}

    async def steps(self) -> AsyncIterator[Difference]:
        for number, (step, recorded) in enumerate(zip(self.script["steps"], self.expect["steps"], strict=True)):
            if self.observer is not None:
                self.observer.reset()
            error = await self._run_step(step)
            expected_error = recorded.get("error")
            if bool(error) != bool(expected_error) or (
                error and expected_error and not is_same_refusal(str(expected_error), error)
            ):
                yield Difference(f"step {number} error", expected_error, error)
            # The recording is the state after a quiet period, but not before `min`.
            took = max(float(recorded["settledAfter"]), float(step.get("min", 0)))
            for difference in await self.environment.settle(took, partial(self._compare, number, recorded)):
                yield difference
            self._event_counts = await self.event_counts()

    async def _run_step(self, step: dict[str, Any]) -> str:
        """Run one step; returns the message with which the API refused it, if it did."""
        op = step["op"]
        on = step.get("on", "host")
        client = self.environment.client if on == "host" else self.environment.members.get(on, self.environment.client)
        try:
            if op == "apply":
                for obj in step["objects"]:
                    await self._apply(client, obj)
                    await asyncio.sleep(PACE_SECONDS)
            elif op == "patch":
                resource, ref = self._resolve(step["ref"])
                await client.patch(
                    resource, ref.get("namespace", ""), ref["name"], step["body"], type=step.get("type", "merge")
                )
            elif op == "delete":
                resource, ref = self._resolve(step["ref"])
                await client.delete(resource, ref.get("namespace", ""), ref["name"])
            elif op == "stop-member-apiserver":
                await self.environment.stop_api(step.get("member") or on)
            elif op == "start-member-apiserver":
                await self.environment.start_api(step.get("member") or on)
            elif op != "wait":
                raise ValueError(f"{self.folder}: unknown step {op}")
        except ApiError as fault:
            return fault.message
        return ""

    async def _apply(self, client: Client, obj: dict[str, Any]) -> None:
        resource = self.resources[obj["kind"]]
        if "/" in obj["apiVersion"] and obj["apiVersion"] != resource.api_version:
            group, version = obj["apiVersion"].split("/")
            resource = resource._replace(group=group, version=version)
        metadata = obj["metadata"]
        await client.patch(
            resource, metadata.get("namespace", ""), metadata["name"], obj, type="apply", manager="flow", force=True
        )

    def _resolve(self, ref: dict[str, Any]) -> tuple[Resource, dict[str, Any]]:
        return self.resources[ref["kind"]], ref

    async def _compare(self, number: int, recorded: dict[str, Any]) -> list[Difference]:
        found = [
            *[d async for d in self._compare_objects(recorded)],
            *[d async for d in self._compare_clusters(recorded)],
        ]
        if self.profile.record_routine_events:
            found += [d async for d in self._compare_events(recorded)]
        if self.profile.name != UPSTREAM.name:
            found += [d async for d in self._gaps()]
        return [difference._replace(path=f"step {number} {difference.path}") for difference in found]

    async def _compare_objects(self, recorded: dict[str, Any]) -> AsyncIterator[Difference]:
        names = self.ids
        kinds, member_kinds = self._kinds()
        host = await self._objects(self.environment.client, kinds)
        members = {
            m: await self._objects(self.environment.direct_client(m), member_kinds) for m in self.environment.members
        }
        for obj in host:
            names.add(obj)
        for name, objects in members.items():
            for obj in objects:
                names.add(obj, name)
        here = [mask_ids(obj, names) for obj in host]
        wanted = [obj for listed in recorded["state"]["host"].values() for obj in listed]
        gens = (generations(wanted), generations(host))
        for difference in compare_objects(wanted, here, gens, "host"):
            yield difference
        for name, objects in members.items():
            there = [obj for listed in recorded["state"]["members"].get(name, {}).values() for obj in listed]
            found = [mask_ids(obj, names) for obj in objects]
            for difference in compare_objects(there, found, gens, name):
                yield difference

    def _kinds(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The kinds to compare on the host and in the members: the usual ones and all recorded ones."""
        states = [step["state"] for step in self.expect["steps"]]
        host = {kind: None for state in states for kind in state["host"]}
        members = {kind: None for state in states for there in state["members"].values() for kind in there}
        return tuple(dict.fromkeys((*HOST_KINDS, *host))), tuple(dict.fromkeys((*MEMBER_KINDS, *members)))

    async def _gaps(self) -> AsyncIterator[Difference]:
        """Service gaps, and the causes of the moves that led to them."""
        for gap in self.observer.gaps() if self.observer is not None else ():
            moved = ", ".join(await self._moves_of(gap.workload)) or "nothing"
            yield Difference(f"gap {gap.workload} moved by {moved}", f"{gap.floor} ready", f"{gap.lowest} ready")

    async def _moves_of(self, workload: Workload) -> list[str]:
        """The causes of the workload's moves so far, from its Move objects."""
        moves = [move["spec"] for move in (await self.environment.client.list(MOVES)).items]
        return sorted(
            {
                " ".join(filter(None, (spec["cause"], spec.get("mode"))))
                for spec in moves
                if Workload(spec["object"]["kind"], spec["object"].get("namespace", ""), spec["object"]["name"])
                == workload
            }
        )

    async def _objects(self, client: Client, kinds: tuple[str, ...]) -> list[dict[str, Any]]:
        found = []
        for kind in kinds:
            resource = self.resources[kind]
            found += [obj for obj in (await client.list(resource)).items if self._belongs_to_flow(obj)]
        return found

    def _belongs_to_flow(self, obj: dict[str, Any]) -> bool:
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if obj["kind"] == "Work":
            manifests = obj["spec"]["workload"]["manifests"]
            return all(m["kind"] != "Namespace" and self._belongs_to_flow(m) for m in manifests)
        if name == "kube-root-ca.crt":
            return False
        return namespace == self.namespace if namespace else name.startswith(self.namespace)

    async def _compare_clusters(self, recorded: dict[str, Any]) -> AsyncIterator[Difference]:
        for obj in (await self.environment.client.list(self.resources["Cluster"])).items:
            name = obj["metadata"]["name"]
            wanted = recorded["state"].get("clusters", {}).get(name)
            if wanted is None:
                continue
            ready = next((c for c in (obj.get("status") or {}).get("conditions", []) if c["type"] == "Ready"), {})
            taints = [{k: v for k, v in t.items() if k != "timeAdded"} for t in (obj["spec"].get("taints") or [])]
            recorded_taints = [
                {k: v for k, v in t.items() if k != "timeAdded"} if isinstance(t, dict) else t
                for t in wanted["taints"] or []
            ]
            if recorded_taints and isinstance(recorded_taints[0], str):
                taints = [taint_text(t) for t in taints]
            found = {"taints": taints, "ready": f"{ready.get('status')}/{ready.get('reason')}"}
            expected = {"taints": recorded_taints, "ready": wanted["ready"]}
            if found != expected:
                yield Difference(f"cluster {name}", expected, found)

    async def _compare_events(self, recorded: dict[str, Any]) -> AsyncIterator[Difference]:
        """Events created or updated in this step, without their counts."""
        touched = set()
        for event in await self._events():
            about = event["involvedObject"]
            place = f"{about['namespace']}/" if about.get("namespace") else ""
            if self._event_counts.get(event["metadata"]["uid"]) != event["count"]:
                subject = f"{about['kind']}/{place}{about['name']}"
                source = event["source"]["component"]
                touched.add(
                    "|".join((event["type"], event["reason"], subject, sort_clusters(event["message"]), source))
                )
        wanted = {
            "|".join((e["type"], e["reason"], e["object"], sort_clusters(e["message"]), e["source"]))
            for e in recorded["events"]
        }
        for key in sorted(wanted - touched):
            if not self._is_transient(key, recorded):
                yield Difference(f"event {key}", "present", "absent")
        for key in sorted(touched - wanted):
            if not self._is_transient(key, recorded):
                yield Difference(f"event {key}", "absent", "present")

    def _is_transient(self, key: str, recorded: dict[str, Any]) -> bool:
        """Whether an event depends on intermediate states, which differ from run to run.

        These are observations of an intermediate status (reflected, interpreted, aggregated) of objects for which the
        recording has such events, and decisions that the same step replaced.
        """
        _, reason, about, rest = key.split("|", 3)
        message, _, source = rest.rpartition("|")
        if self._is_rate_limited(source, about):
            return True
        if reason in OBSERVATIONS:
            return any((e["reason"], e["object"]) == (reason, about) for s in self.expect["steps"] for e in s["events"])
        if reason == "ScheduleBindingSucceed":
            return not any(f"{{{result}}}" in message for result in results_of(recorded, about))
        return False

    async def _events(self) -> list[dict[str, Any]]:
        """The events about this flow's objects, in the recorded form."""
        listed = (await self.environment.client.list(EVENTS)).items
        return [
            event
            for event in listed
            if (about := event["involvedObject"])["kind"] not in ("Cluster", "Namespace") and self._is_about_flow(about)
        ]

    async def event_counts(self) -> dict[str, int]:
        return {event["metadata"]["uid"]: event["count"] for event in await self._events()}

    def _is_rate_limited(self, source: str, about: str) -> bool:
        """Whether Upstream's recorder dropped events: it stops after 25 events of one source about an object."""
        known_events: dict[str, int] = {}
        for step in self.expect["steps"]:
            for event in step["events"]:
                if (event["source"], event["object"]) == (source, about):
                    known_events[f"{event['reason']} {event['message']}"] = event["count"]
        return sum(known_events.values()) >= MAX_EVENTS_PER_SOURCE

    def _is_about_flow(self, about: dict[str, Any]) -> bool:
        if about["kind"] == "Work":
            if about["name"] in self._foreign_works:
                return False
            return about["name"] != work_name("Namespace", self.namespace, "")
        namespace = about.get("namespace", "")
        return namespace == self.namespace if namespace else about["name"].startswith(self.namespace)


def sort_clusters(message: str) -> str:
    """The message with its clusters sorted by name: upstream prints them in map order."""
    return re.sub(r"\{([^{}]*)\}\Z", lambda m: "{" + ", ".join(sorted(m[1].split(", "))) + "}", message)


def results_of(recorded: dict[str, Any], about: str) -> list[str]:
    """The placement of this binding, or of this template's binding, at the end of the step."""
    found = []
    for kind in ("ResourceBinding", "ClusterResourceBinding"):
        for binding in recorded["state"]["host"].get(kind, []):
            metadata, resource = binding["metadata"], binding["spec"]["resource"]
            own = f"{kind}/{'/'.join(p for p in (metadata.get('namespace'), metadata['name']) if p)}"
            template = "/".join(p for p in (resource["kind"], resource.get("namespace"), resource["name"]) if p)
            if about in (own, template):
                clusters = binding["spec"].get("clusters") or []
                found.append(", ".join(sorted(f"{c['name']}:{c.get('replicas', 0)}" for c in clusters)))
    return found


def taint_text(taint: dict[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def is_same_refusal(recorded: str, found: str) -> bool:
    """The cause must agree; the prefix with the name of the webhook may differ."""
    prefix = re.compile(r"^.*?denied the request: ", re.DOTALL)
    return prefix.sub("", recorded).strip() in found or prefix.sub("", found).strip() in recorded


def replay(profile: str, folder: Path) -> list[Difference]:
    logging.disable(logging.WARNING if not os.environ.get("FLOW_LOGS") else logging.NOTSET)
    return RecordedFlow(folder, PROFILES[profile]).run()


def replay_all(chosen: list[Path], profile: str) -> Iterator[list[Difference]]:
    """The differences of each flow, in order; two flows run at a time."""
    with ProcessPoolExecutor(max_workers=2) as pool:
        yield from pool.map(partial(replay, profile), chosen)


def unexpected_differences(
    found: list[Difference], rules: list[AllowedDifference], used: set[AllowedDifference]
) -> Iterator[Difference]:
    """The differences that no rule covers."""
    for difference in found:
        covering = next((rule for rule in rules if rule.covers(difference)), None)
        if covering is None:
            yield difference
        else:
            used.add(covering)


def flow_folders(paths: list[Path]) -> list[Path]:
    found = []
    for path in paths or [FLOWS]:
        found += [path] if (path / "input.yaml").exists() else sorted(f.parent for f in path.glob("*/input.yaml"))
    if not found:
        raise SystemExit(
            f"no flows in {', '.join(map(str, paths))}: a flow is a folder with input.yaml and expect.json"
        )
    return found


def main() -> int:
    logging.disable(logging.WARNING if not os.environ.get("FLOW_LOGS") else logging.NOTSET)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dirs", nargs="*", type=Path, help="folders of flows, or flows; default: all")
    parser.add_argument("--most", type=int, default=12, help="maximum number of differences to print per flow")
    parser.add_argument(
        "--profile", choices=sorted(EXCEPTIONS), default="upstream", help="profile of the control plane"
    )
    arguments = parser.parse_args()
    rules, used = allowed_differences(arguments.profile), set[AllowedDifference]()
    passed = failed = 0
    chosen = flow_folders(arguments.dirs)
    for folder, outcome in zip(chosen, replay_all(chosen, arguments.profile), strict=True):
        differences = list(unexpected_differences(outcome, rules, used))
        passed += not differences
        failed += bool(differences)
        print(f"{'ok  ' if not differences else 'FAIL'} {folder.name}", flush=True)
        for difference in differences[: arguments.most]:
            print(f"     {difference}")
        if len(differences) > arguments.most:
            print(f"     and {len(differences) - arguments.most} more")
    if not arguments.dirs:
        for rule in rules:
            if rule not in used:
                failed += 1
                print(f"FAIL the allowed difference {rule.path!r} matches nothing")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
