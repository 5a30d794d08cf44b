"""`make flows`: replays recorded flows of a live Karmada control plane and says where we leave something else behind.

The flow runs on virtual time against the embedded server with simulated members of the recorded sizes. Uids of the
recording are given to the objects, because ties in a division are broken by them.

In the profile `upstream` everything is compared, events too. In the profile `trimtab` (`--profile trimtab`) the flow
must end every step in the same place, what we write otherwise on purpose excepted by rule; and it must get there
without a gap in the service: at no single change are fewer replicas ready than both before and after the step.
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

from compat.flow_compare import (  # noqa: E402 - the tests directory has to be importable first
    Difference,
    Names,
    compare_objects,
    generations,
    masked,
)
from compat.flow_service import Service, Workload  # noqa: E402

from trimtab.api.profile import PROFILES, UPSTREAM, Profile  # noqa: E402
from trimtab.app import Embedded  # noqa: E402
from trimtab.client.client import Client, Resource  # noqa: E402
from trimtab.clock import LoopClock, run_virtually  # noqa: E402
from trimtab.errors import ApiFault  # noqa: E402
from trimtab.interpret.names import work_name  # noqa: E402
from trimtab.server.admission.peer_webhooks import PolicyAdmission  # noqa: E402
from trimtab.server.apiserver import ApiServer, Settings  # noqa: E402
from trimtab.server.local import LocalClient  # noqa: E402
from trimtab.simulate.fleet import flows_fleet  # noqa: E402
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
"""At least one period of status collection, so that what a step changed has been seen everywhere."""
PACE_SECONDS = 0.02
"""Between two objects of one step, as in the recordings: whether a template comes before its policy matters."""
OBSERVATIONS = ("InterpretHealthSucceed", "ReflectStatusSucceed", "AggregateStatusSucceed")
MOST_EVENTS = 25
AS_RECORDED = {
    "failover": True,
    "cluster-failure-threshold": 10,
    "cluster-success-threshold": 10,
    "eviction-rate": 1.5,
    "policy-preemption": False,
}


class Exemption(NamedTuple):
    """A general rule: what may differ, and why."""

    where: str
    path: str
    reason: str
    added: bool = False
    """Covers only what the recording does not have at all, such as a field of ours."""

    def covers(self, difference: Difference) -> bool:
        return fnmatch(difference.path, self.path) and not (self.added and difference.expected is not None)


def exemptions(profile: str = "upstream") -> list[Exemption]:
    return [Exemption(**rule) for rule in yaml.safe_load(EXCEPTIONS[profile].read_text()) or []]


class RecordedUids:
    """Gives an object the uid it had in the recording; others get uids that no recording has."""

    def __init__(self, recorded: dict[str, str]) -> None:
        self._recorded = recorded
        self._count = 0

    def __call__(self) -> str:
        self._count += 1
        return f"00000000-0000-4000-8000-{self._count:012d}"

    def of(self, obj: dict[str, Any]) -> str | None:
        metadata = obj["metadata"]
        place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        return self._recorded.get(f"{obj['kind']}/{place}{metadata.get('name', '')}")


class UidAdmission:
    """Writes the recorded uid into an object as it is born."""

    def __init__(self, uids: RecordedUids) -> None:
        self._uids = uids

    async def mutate(self, attributes: Any, obj: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
        uid = self._uids.of(obj) if attributes.operation == "CREATE" else None
        if not uid:
            return obj
        # A Job carries its own uid in its selector and labels too.
        text = json.dumps(obj).replace(obj["metadata"]["uid"], uid) if obj["metadata"].get("uid") else json.dumps(obj)
        born: dict[str, Any] = json.loads(text)
        return {**born, "metadata": {**born["metadata"], "uid": uid}}

    async def validate(self, attributes: Any, obj: dict[str, Any] | None, old: dict[str, Any] | None) -> None:
        """Nothing is refused."""


class Stage(Protocol):
    """Where a flow is played: a host, its members, and somebody who knows how long things take there."""

    @property
    def client(self) -> Client: ...

    @property
    def members(self) -> Mapping[str, Client]:
        """The members as their users reach them."""
        ...

    def look_into(self, member: str) -> Client:
        """The member as it is, even while nobody reaches it."""
        ...

    async def stop_api(self, member: str) -> None: ...

    async def start_api(self, member: str) -> None: ...

    async def settle(self, seconds: float, compare: Callable[[], Awaitable[list[Difference]]]) -> list[Difference]:
        """Give a step that once took `seconds` the time it needs, then compare."""
        ...


class EmbeddedStage:
    """The embedded server and simulated members, on virtual time."""

    def __init__(self, fleet: Embedded) -> None:
        self._fleet = fleet
        self.client: Client = fleet.client

    @property
    def members(self) -> Mapping[str, Client]:
        return {member.name: member.client for member in self._fleet.world}

    def look_into(self, member: str) -> Client:
        return LocalClient(self._fleet.world[member].server)

    async def stop_api(self, member: str) -> None:
        self._fleet.world[member].stop_api()

    async def start_api(self, member: str) -> None:
        self._fleet.world[member].start_api()

    async def settle(self, seconds: float, compare: Callable[[], Awaitable[list[Difference]]]) -> list[Difference]:
        await asyncio.sleep(max(SETTLE_SECONDS, seconds + 1))
        return await compare()


class Flow:
    """One recorded flow, replayed."""

    def __init__(self, folder: Path, profile: Profile = UPSTREAM, **options: Any) -> None:
        """`options` are passed on to the embedded fleet."""
        self.folder = folder
        self._options = options
        self.profile = profile
        self.service: Service | None = None
        """Who counts ready replicas, where the stage lets us look so closely."""
        self.script = yaml.safe_load((folder / "input.yaml").read_text())
        self.expect = json.loads((folder / "expect.json").read_text())
        self.namespace: str = self.script["namespace"]
        self._told: dict[str, int] = {}
        self._foreign: set[str] = set()
        self.names = Names()
        """Kept over all steps: what is gone may still be spoken of."""

    def run(self) -> list[Difference]:
        return run_virtually(self._run())

    async def _run(self) -> list[Difference]:
        clock = LoopClock()
        uids = RecordedUids(self.expect["uids"])
        host = ApiServer(
            Store(), Settings(clock=clock, plugins=[PolicyAdmission(uids), UidAdmission(uids)], new_uid=uids)
        )
        await host.start()
        fleet = Embedded(
            flows_fleet(), host=host, clock=clock, profile=self.profile, settings=AS_RECORDED, **self._options
        )
        await fleet.start()
        self.service = Service({member.name: member.server.store for member in fleet.world})
        self.service.start()
        try:
            await asyncio.sleep(30)
            await self.begin(EmbeddedStage(fleet))
            await asyncio.sleep(SETTLE_SECONDS)
            return [d async for d in self.steps()]
        finally:
            self.service.stop()
            await fleet.stop()
            await host.stop()

    async def begin(self, stage: Stage) -> None:
        """The namespace of the flow exists, and is synced to the members, before its first step."""
        self.stage = stage
        self.resources = {r.kind: r for r in await stage.client.resources()}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        await stage.client.create(self.resources["Namespace"], namespace)
        # What an earlier flow on the same stage left behind, or was told about it, is not ours to judge.
        works = [work["metadata"]["name"] for work in (await stage.client.list(self.resources["Work"])).items]
        told = [event["involvedObject"]["name"] for event in (await stage.client.list(EVENTS)).items]
        self._foreign = {*works, *told}

    async def steps(self) -> AsyncIterator[Difference]:
        for number, (step, recorded) in enumerate(zip(self.script["steps"], self.expect["steps"], strict=True)):
            if self.service is not None:
                self.service.chapter()
            error = await self._do(step)
            expected_error = recorded.get("error")
            if bool(error) != bool(expected_error) or (
                error and expected_error and not same_refusal(str(expected_error), error)
            ):
                yield Difference(f"step {number} error", expected_error, error)
            # What was recorded is what there was when nothing had happened for a while, but not before `min`.
            took = max(float(recorded["settledAfter"]), float(step.get("min", 0)))
            for difference in await self.stage.settle(took, partial(self._compare, number, recorded)):
                yield difference
            self._told = await self._counts()

    async def _do(self, step: dict[str, Any]) -> str:
        """Carry out one step; returns what the API refused it with, if it did."""
        op = step["op"]
        on = step.get("on", "host")
        client = self.stage.client if on == "host" else self.stage.members.get(on, self.stage.client)
        try:
            if op == "apply":
                for obj in step["objects"]:
                    await self._apply(client, obj)
                    await asyncio.sleep(PACE_SECONDS)
            elif op == "patch":
                resource, ref = self._at(step["ref"])
                await client.patch(
                    resource, ref.get("namespace", ""), ref["name"], step["body"], type=step.get("type", "merge")
                )
            elif op == "delete":
                resource, ref = self._at(step["ref"])
                await client.delete(resource, ref.get("namespace", ""), ref["name"])
            elif op == "stop-member-apiserver":
                await self.stage.stop_api(step.get("member") or on)
            elif op == "start-member-apiserver":
                await self.stage.start_api(step.get("member") or on)
            elif op != "wait":
                raise ValueError(f"{self.folder}: no step is called {op}")
        except ApiFault as fault:
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

    def _at(self, ref: dict[str, Any]) -> tuple[Resource, dict[str, Any]]:
        return self.resources[ref["kind"]], ref

    async def _compare(self, number: int, recorded: dict[str, Any]) -> list[Difference]:
        found = [
            *[d async for d in self._compare_objects(recorded)],
            *[d async for d in self._compare_clusters(recorded)],
        ]
        if self.profile.tell_routine:
            found += [d async for d in self._compare_events(recorded)]
        if self.profile.name != UPSTREAM.name:
            found += [d async for d in self._gaps()]
        return [difference._replace(path=f"step {number} {difference.path}") for difference in found]

    async def _compare_objects(self, recorded: dict[str, Any]) -> AsyncIterator[Difference]:
        names = self.names
        kinds, member_kinds = self._kinds()
        host = await self._objects(self.stage.client, kinds)
        members = {m: await self._objects(self.stage.look_into(m), member_kinds) for m in self.stage.members}
        for obj in host:
            names.learn(obj)
        for name, objects in members.items():
            for obj in objects:
                names.learn(obj, name)
        here = [masked(obj, names) for obj in host]
        wanted = [obj for listed in recorded["state"]["host"].values() for obj in listed]
        gens = (generations(wanted), generations(host))
        for difference in compare_objects(wanted, here, gens, "host"):
            yield difference
        for name, objects in members.items():
            there = [obj for listed in recorded["state"]["members"].get(name, {}).values() for obj in listed]
            found = [masked(obj, names) for obj in objects]
            for difference in compare_objects(there, found, gens, name):
                yield difference

    def _kinds(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The kinds to look at on the host and in the members: the usual ones, and whatever else was recorded."""
        states = [step["state"] for step in self.expect["steps"]]
        host = {kind: None for state in states for kind in state["host"]}
        members = {kind: None for state in states for there in state["members"].values() for kind in there}
        return tuple(dict.fromkeys((*HOST_KINDS, *host))), tuple(dict.fromkeys((*MEMBER_KINDS, *members)))

    async def _gaps(self) -> AsyncIterator[Difference]:
        """Where the service was weaker for a while than both before and after, and what moved it."""
        for gap in self.service.gaps() if self.service is not None else ():
            moved = ", ".join(await self._moves_of(gap.workload)) or "nothing"
            yield Difference(f"gap {gap.workload} moved by {moved}", f"{gap.floor} ready", f"{gap.lowest} ready")

    async def _moves_of(self, workload: Workload) -> list[str]:
        """The causes of what moved it so far, as the log has them."""
        moves = [move["spec"] for move in (await self.stage.client.list(MOVES)).items]
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
            found += [obj for obj in (await client.list(resource)).items if self._belongs(obj)]
        return found

    def _belongs(self, obj: dict[str, Any]) -> bool:
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if obj["kind"] == "Work":
            manifests = obj["spec"]["workload"]["manifests"]
            return all(m["kind"] != "Namespace" and self._belongs(m) for m in manifests)
        if name == "kube-root-ca.crt":
            return False
        return namespace == self.namespace if namespace else name.startswith(self.namespace)

    async def _compare_clusters(self, recorded: dict[str, Any]) -> AsyncIterator[Difference]:
        for obj in (await self.stage.client.list(self.resources["Cluster"])).items:
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
        """Events touched in this step, whatever their count."""
        touched = set()
        for event in await self._events():
            about = event["involvedObject"]
            place = f"{about['namespace']}/" if about.get("namespace") else ""
            if self._told.get(event["metadata"]["uid"]) != event["count"]:
                subject = f"{about['kind']}/{place}{about['name']}"
                source = event["source"]["component"]
                touched.add("|".join((event["type"], event["reason"], subject, in_order(event["message"]), source)))
        wanted = {
            "|".join((e["type"], e["reason"], e["object"], in_order(e["message"]), e["source"]))
            for e in recorded["events"]
        }
        for key in sorted(wanted - touched):
            if not self._passing(key, recorded):
                yield Difference(f"event {key}", "told", "not told")
        for key in sorted(touched - wanted):
            if not self._passing(key, recorded):
                yield Difference(f"event {key}", "not told", "told")

    def _passing(self, key: str, recorded: dict[str, Any]) -> bool:
        """Whether an event depends on what was seen in passing, which differs from run to run.

        Observations of a status on its way (reflected, judged, aggregated) are such, for objects about which the
        recording tells them at all; and so is a decision that the same step replaced by another.
        """
        _, reason, about, rest = key.split("|", 3)
        message, _, source = rest.rpartition("|")
        if self._drowned(source, about):
            return True
        if reason in OBSERVATIONS:
            return any((e["reason"], e["object"]) == (reason, about) for s in self.expect["steps"] for e in s["events"])
        if reason == "ScheduleBindingSucceed":
            return not any(f"{{{result}}}" in message for result in results_of(recorded, about))
        return False

    async def _events(self) -> list[dict[str, Any]]:
        """Those that speak of this flow's objects, as the recording has them."""
        listed = (await self.stage.client.list(EVENTS)).items
        return [
            event
            for event in listed
            if (about := event["involvedObject"])["kind"] not in ("Cluster", "Namespace") and self._speaks_of_us(about)
        ]

    async def _counts(self) -> dict[str, int]:
        return {event["metadata"]["uid"]: event["count"] for event in await self._events()}

    def _drowned(self, source: str, about: str) -> bool:
        """Upstream's recorder falls silent about an object after 25 events of one source."""
        told: dict[str, int] = {}
        for step in self.expect["steps"]:
            for event in step["events"]:
                if (event["source"], event["object"]) == (source, about):
                    told[f"{event['reason']} {event['message']}"] = event["count"]
        return sum(told.values()) >= MOST_EVENTS

    def _speaks_of_us(self, about: dict[str, Any]) -> bool:
        if about["kind"] == "Work":
            if about["name"] in self._foreign:
                return False
            return about["name"] != work_name("Namespace", self.namespace, "")
        namespace = about.get("namespace", "")
        return namespace == self.namespace if namespace else about["name"].startswith(self.namespace)


def in_order(message: str) -> str:
    """The clusters of a result in order of names: upstream prints them as they come out of a map."""
    return re.sub(r"\{([^{}]*)\}\Z", lambda m: "{" + ", ".join(sorted(m[1].split(", "))) + "}", message)


def results_of(recorded: dict[str, Any], about: str) -> list[str]:
    """The placement of this binding, or of this template's binding, as it is at the end of the step."""
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


def same_refusal(recorded: str, found: str) -> bool:
    """The cause text must agree; the prefix that names a webhook need not."""
    prefix = re.compile(r"^.*?denied the request: ", re.DOTALL)
    return prefix.sub("", recorded).strip() in found or prefix.sub("", found).strip() in recorded


def replay(profile: str, folder: Path) -> list[Difference]:
    logging.disable(logging.WARNING if not os.environ.get("FLOW_LOGS") else logging.NOTSET)
    return Flow(folder, PROFILES[profile]).run()


def replayed(chosen: list[Path], profile: str) -> Iterator[list[Difference]]:
    """The differences of each flow, in order; two flows run at a time."""
    with ProcessPoolExecutor(max_workers=2) as pool:
        yield from pool.map(partial(replay, profile), chosen)


def judge(found: list[Difference], rules: list[Exemption], used: set[Exemption]) -> Iterator[Difference]:
    """The differences that no rule of exception covers."""
    for difference in found:
        covering = next((rule for rule in rules if rule.covers(difference)), None)
        if covering is None:
            yield difference
        else:
            used.add(covering)


def folders(paths: list[Path]) -> list[Path]:
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
    parser.add_argument("dirs", nargs="*", type=Path, help="folders of flows, or flows; all of ours when none is given")
    parser.add_argument("--most", type=int, default=12, help="how many differences of a flow to show")
    parser.add_argument("--profile", choices=sorted(EXCEPTIONS), default="upstream", help="as whom we decide and write")
    arguments = parser.parse_args()
    rules, used = exemptions(arguments.profile), set[Exemption]()
    passed = failed = 0
    chosen = folders(arguments.dirs)
    for folder, outcome in zip(chosen, replayed(chosen, arguments.profile), strict=True):
        differences = list(judge(outcome, rules, used))
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
                print(f"FAIL the exemption {rule.path!r} matches nothing")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
