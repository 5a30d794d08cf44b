"""The pod workers of simulated kubelets: they start, advance, report and end the pods bound to their machines."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import cast

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Key, Raw
from trimtab.decide.pods.fit.requests import pod_resources_of
from trimtab.errors import ApiError, Conflict, NotFound, StorageFailed
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.queue import WorkQueue
from trimtab.simulate.containers.container_lifecycle import ContainerLifecycle
from trimtab.simulate.containers.files import Directory
from trimtab.simulate.containers.programs import ContainerContext
from trimtab.simulate.kubelets.behaviour import Behaviour, BehaviourOverride
from trimtab.simulate.kubelets.loop_times import LoopTimes
from trimtab.simulate.kubelets.machine import SimulatedMachine
from trimtab.simulate.kubelets.pod_admission import PodAdmission
from trimtab.simulate.kubelets.pod_events import PodEvents
from trimtab.simulate.kubelets.pod_lifecycle import PodLifecycle
from trimtab.simulate.kubelets.pod_reports import PODS, PodReports
from trimtab.simulate.kubelets.pod_sandbox import NO_CONFIG, PodSandbox

REJECTION_SECONDS = 5.0
"""A rejected pod is replaced, and the replacement rejected again: the pause limits the rate."""
MIN_REPORTED_SECONDS = 0.5
"""States that last shorter are not reported."""
STORAGE_RETRY_SECONDS = 10.0
MAX_PARALLEL = 16
PORTS_MESSAGE = (
    "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
)
OS_MESSAGE = "Failed to admit pod as the OS field doesn't match node OS"
log = logging.getLogger("trimtab.kubelet")


def _is_for_other_system(pod: Raw) -> bool:
    """Whether the pod needs another operating system than that of the simulated machines."""
    return ((pod["spec"].get("os") or {}).get("name") or "linux") != "linux"


class PodWorkers:
    """All pods of one cluster: one lifecycle each, one work queue."""

    def __init__(
        self,
        cache: Cache,
        machines: Mapping[str, SimulatedMachine],
        reports: PodReports,
        events: PodEvents,
        times: LoopTimes,
        *,
        cluster: str,
        behaviour_of: Callable[[Pod], Behaviour],
        rng: random.Random,
    ) -> None:
        self._cache = cache
        self._machines = machines
        self._reports = reports
        self._events = events
        self._times = times
        self._cluster = cluster
        self._behaviour_of = behaviour_of
        self._rng = rng
        self._admission = PodAdmission()
        self._lifecycles: dict[Key, PodLifecycle] = {}
        self._sandboxes: dict[Key, PodSandbox] = {}
        self._claim_files: dict[str, Directory] = {}
        """The files of PersistentVolumeClaims, by uid."""
        self._queue: WorkQueue[Key] = WorkQueue()

    async def run(self) -> None:
        limit = asyncio.Semaphore(MAX_PARALLEL)
        running: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        try:
            while True:
                await limit.acquire()
                (key,) = await self._queue.take()
                task = loop.create_task(self._process(key))
                running.add(task)
                task.add_done_callback(running.discard)
                task.add_done_callback(lambda _: limit.release())
        finally:
            for task in running:
                task.cancel()

    def close(self) -> None:
        self._queue.close()

    @property
    def is_idle(self) -> bool:
        """Whether no pod is queued; timers may be pending."""
        return self._queue.is_idle

    # changes of machines and behaviour

    def restart_containers(self, node: str) -> None:
        """Restart all containers of the node, after its machine was down."""
        for _, lifecycle in self._pods_on(node):
            lifecycle.interrupt(self._times.now())

    def sync_all(self, node: str) -> None:
        """Report the status of all pods of the node."""
        for key, _ in self._pods_on(node):
            self._queue.add(key)

    def end_all(self, node: str) -> None:
        """Delete the pods of a deleted node: no kubelet reports on them any more."""
        for key, lifecycle in self._pods_on(node):
            lifecycle.stop_at = self._times.now()
            self._queue.add(key)

    def adopt_all(self, node: str) -> None:
        """Run the pods that are bound to a new machine already."""
        for entry in list(self._cache.table(PODS).entries.values()):
            if entry.raw["spec"].get("nodeName") == node:
                self.on_pod_change(None, entry)

    def apply_override_change(self, override: BehaviourOverride) -> None:
        """Change the behaviour of the running pods to which this override applies, or applied."""
        now = self._times.now()
        for key, lifecycle in self._lifecycles.items():
            entry = self._pod_entry(key)
            if entry is not None and override.applies_to(pod := cast("Pod", entry.typed)):
                lifecycle.change_behaviour(self._behaviour_of(pod), now)
                self._queue.add(key)

    def _pods_on(self, node: str) -> Iterator[tuple[Key, PodLifecycle]]:
        return ((key, lifecycle) for key, lifecycle in self._lifecycles.items() if lifecycle.node == node)

    def _pod_entry(self, key: Key) -> CacheEntry | None:
        return self._cache.table(PODS).entries.get((key.namespace, key.name))

    def find_lifecycle(self, pod: Raw) -> PodLifecycle | None:
        """The lifecycle of this pod; None if no kubelet runs it."""
        metadata = pod["metadata"]
        found = self._lifecycles.get(Key("pods", metadata["namespace"], metadata["name"]))
        return found if found is not None and found.uid == metadata["uid"] else None

    def wake(self, pod: Raw, container: ContainerLifecycle) -> None:
        """Let the program of a container continue that waits for input, which is there now."""
        if container.process is not None:
            container.process.wake(self._times.now())
            self._queue.add(Key("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]))

    async def command_context(self, pod: Raw, container: str) -> ContainerContext | None:
        """What a command in a running container of this pod sees; None if it does not run."""
        lifecycle = self.find_lifecycle(pod)
        found = lifecycle.container(container) if lifecycle is not None else None
        if found is None or found.running_since is None:
            return None
        sandbox = self._sandboxes[Key("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])]
        if sandbox.config is NO_CONFIG:
            sandbox.load(await self._reports.read_config(pod, sandbox.references))
        if found.context is None:  # its program is not known; commands see its files all the same
            found.context = sandbox.new_context(found.container)
        return found.context

    # watch events

    def on_pod_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        entry = new or cast("CacheEntry", old)
        key = Key("pods", *entry.name)
        if new is None:
            self._forget(key)
            return
        node = new.raw["spec"].get("nodeName")
        if node not in self._machines:
            return
        metadata = new.raw["metadata"]
        lifecycle = self._lifecycles.get(key)
        if lifecycle is None or lifecycle.uid != metadata["uid"]:
            self._forget(key)
            self._begin(key, new)
        elif metadata.get("deletionTimestamp") and lifecycle.stop_at is None:
            lifecycle.stop_at = self._stop_time(lifecycle, metadata)
            self._events.record_killing(new.raw, lifecycle.running_containers())
            self._queue.add(key)
        elif self._has_changed(key, lifecycle, new.raw):
            self._queue.add(key)

    def _has_changed(self, key: Key, lifecycle: PodLifecycle, raw: Raw) -> bool:
        """Whether the kubelet has something to do after this change."""
        self._sandboxes[key].observe(raw)
        spec_changed = lifecycle.observe(raw, self._times.now())
        return spec_changed or bool(raw["spec"].get("readinessGates")) or lifecycle.is_changed_by_others(raw)

    def _stop_time(self, lifecycle: PodLifecycle, metadata: Raw) -> float:
        grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
        return self._times.now() + min(grace, max(lifecycle.behaviour.stop, lifecycle.termination_seconds()))

    def _begin(self, key: Key, entry: CacheEntry) -> None:
        pod = cast("Pod", entry.typed)
        if pod.is_terminal and pod.metadata.deletion_timestamp is None:
            return
        now = self._times.now()
        machine = self._machines[pod.spec.node_name]
        sandbox = self._sandboxes[key] = PodSandbox(
            entry.raw, machine.host_files, self._rng, self._files_of_claim, self._wall_time
        )
        lifecycle = PodLifecycle(
            pod, entry.raw, self._behaviour_of(pod), now, self._times.to_wall_time, sandbox.context_of
        )
        if pod.metadata.deletion_timestamp is not None:
            lifecycle.stop_at = now + lifecycle.behaviour.stop
        self._lifecycles[key] = lifecycle
        if _is_for_other_system(entry.raw):
            lifecycle.is_admitted = False
        elif pod.status.phase == "Running" or self._fits(pod):
            self._admission.add(key, lifecycle.node, pod_resources_of(pod))
        else:
            lifecycle.is_admitted = False
        self._queue.add_after(key, 0.0 if lifecycle.is_admitted else REJECTION_SECONDS)

    def _wall_time(self) -> datetime:
        return self._times.to_wall_time(self._times.now())

    def _files_of_claim(self, namespace: str, name: str) -> Directory:
        """The files of a PersistentVolumeClaim, which outlive the pods that mount it."""
        table = self._cache.find_table("persistentvolumeclaims")
        entry = table.entries.get((namespace, name)) if table is not None else None
        if table is None or entry is None:
            return {}
        uid = entry.raw["metadata"]["uid"]
        if uid not in self._claim_files:
            existing = {one.raw["metadata"]["uid"] for one in table.entries.values()}
            self._claim_files = {one: files for one, files in self._claim_files.items() if one in existing}
            self._claim_files[uid] = {}
        return self._claim_files[uid]

    def _fits(self, pod: Pod) -> bool:
        node, resources = pod.spec.node_name, pod_resources_of(pod)
        capacity = self._machines[node].capacity
        return not self._admission.has_port_conflict(node, resources.ports) and (
            self._admission.insufficient_resource(node, capacity, resources.requests) is None
        )

    def _forget(self, key: Key) -> None:
        self._queue.cancel_timer(key)
        self._sandboxes.pop(key, None)
        if lifecycle := self._lifecycles.pop(key, None):
            self._admission.remove(key, lifecycle.node)

    # sync

    async def _process(self, key: Key) -> None:
        try:
            await self._sync(key)
            self._queue.reset_backoff(key)
        except (NotFound, Conflict):
            self._queue.retry(key)  # the watch event about the change is still to come
        except StorageFailed as fault:  # the store logs it, once for all pods
            self._queue.add_after(key, fault.retry_after or STORAGE_RETRY_SECONDS)
        except (ApiError, OSError, TimeoutError) as fault:
            log.warning("%s: cannot report %s: %s", self._cluster, key, fault)
            self._queue.retry(key)
        finally:
            self._queue.done(key)

    async def _sync(self, key: Key) -> None:
        lifecycle, entry = self._lifecycles.get(key), self._pod_entry(key)
        if lifecycle is None or entry is None:
            return
        machine = self._machines.get(lifecycle.node)
        if machine is None:
            await self._reports.delete(entry, lifecycle.uid)
            return
        if not machine.up:
            return
        if not lifecycle.is_admitted:
            await self._admit_or_reject(key, lifecycle, entry)
            return
        now = self._times.now()
        if lifecycle.stop_at is not None and now + 1e-3 >= lifecycle.stop_at:
            await self._finish_termination(lifecycle, entry)
            return
        if not self._sandboxes[key].is_loaded:
            await self._load_config(key, lifecycle, entry)
        due = lifecycle.advance(now)
        if due is None or due - now >= MIN_REPORTED_SECONDS:
            await self._report(lifecycle, entry, now)
        if lifecycle.is_finished:
            self._admission.remove(key, lifecycle.node)
        waits = [moment for moment in (due, lifecycle.stop_at) if moment is not None]
        if waits:
            self._queue.add_after(key, min(waits) - now)

    async def _load_config(self, key: Key, lifecycle: PodLifecycle, entry: CacheEntry) -> None:
        """Read the configuration of the pod; while something is missing, its containers wait."""
        sandbox = self._sandboxes[key]
        config = await self._reports.read_config(entry.raw, sandbox.references)
        sandbox.config = config
        lifecycle.config_errors = {
            one["name"]: error for one in entry.raw["spec"]["containers"] if (error := sandbox.config_error(one))
        }
        sandbox.is_loaded = not lifecycle.config_errors

    async def _report(self, lifecycle: PodLifecycle, entry: CacheEntry, now: float) -> None:
        status = lifecycle.status(entry.raw, now, self._machines[lifecycle.node].address)
        lifecycle.note_report(status)
        await self._reports.report(entry, status)
        self._events.record_report(entry.raw, status)

    async def _admit_or_reject(self, key: Key, lifecycle: PodLifecycle, entry: CacheEntry) -> None:
        """Reject a pod that exceeds the actual capacity, which may be less than the scheduler sees."""
        if _is_for_other_system(entry.raw):
            del self._lifecycles[key], self._sandboxes[key]
            await self._reports.write(entry, {"phase": "Failed", "reason": "PodOSNotSupported", "message": OS_MESSAGE})
            return
        pod, node = cast("Pod", entry.typed), lifecycle.node
        if self._fits(pod):
            lifecycle.is_admitted = True
            self._admission.add(key, node, pod_resources_of(pod))
            self._queue.add(key)
            return
        requests, capacity = pod_resources_of(pod).requests, self._machines[node].capacity
        reason, message = "NodePorts", PORTS_MESSAGE
        if insufficient := self._admission.insufficient_resource(node, capacity, requests):
            reason = f"OutOf{insufficient}"
            message = self._admission.rejection_message(node, capacity, requests, insufficient)
        del self._lifecycles[key], self._sandboxes[key]
        await self._reports.write(entry, {"phase": "Failed", "reason": reason, "message": message})

    async def _finish_termination(self, lifecycle: PodLifecycle, entry: CacheEntry) -> None:
        """Report the end to owners that wait for it through finalizers, then delete the pod."""
        if entry.raw["metadata"].get("finalizers") and not lifecycle.is_finished:
            lifecycle.stop(self._times.now())
            await self._report(lifecycle, entry, self._times.now())
        await self._reports.delete(entry, lifecycle.uid)
