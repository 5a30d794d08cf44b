"""The pod workers of simulated kubelets: they start, advance, report and end the pods bound to their machines."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import cast

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Key, Raw
from trimtab.decide.pods.fit.requests import pod_resources_of
from trimtab.errors import ApiError, Conflict, NotFound, StorageFailed
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.queue import WorkQueue
from trimtab.simulate.containers.container_lifecycle import ContainerLifecycle
from trimtab.simulate.kubelets.behaviour import Behaviour, BehaviourOverride
from trimtab.simulate.kubelets.claim_files import ClaimFiles
from trimtab.simulate.kubelets.loop_times import LoopTimes
from trimtab.simulate.kubelets.machine import SimulatedMachine
from trimtab.simulate.kubelets.pod_admission import PodAdmission
from trimtab.simulate.kubelets.pod_events import PodEvents
from trimtab.simulate.kubelets.pod_lifecycle import PodLifecycle
from trimtab.simulate.kubelets.pod_reports import PODS, PodReports
from trimtab.simulate.kubelets.pod_sandbox import NO_CONFIG, PodSandbox
from trimtab.simulate.kubelets.pod_status import kubelet_status
from trimtab.simulate.kubelets.running_pods import RunningPods, key_of_pod

REJECTION_SECONDS = 5.0
"""A rejected pod is replaced, and the replacement rejected again: the pause limits the rate."""
MIN_REPORTED_SECONDS = 0.5
"""States that last shorter are not reported."""
STORAGE_RETRY_SECONDS = 10.0
SANDBOX_RETRY_SECONDS = 10.0
MAX_PARALLEL = 16
log = logging.getLogger("trimtab.kubelet")


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
        self.pods = RunningPods()
        self._claim_files = ClaimFiles(cache)
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
        for _, lifecycle in self.pods.on_node(node):
            lifecycle.interrupt(self._times.now())

    def sync_all(self, node: str) -> None:
        """Report the status of all pods of the node."""
        for key, _ in self.pods.on_node(node):
            self._queue.add(key)

    def end_all(self, node: str) -> None:
        """Delete the pods of a deleted node: no kubelet reports on them any more."""
        for key, lifecycle in self.pods.on_node(node):
            lifecycle.stop_at = self._times.now()
            self._queue.add(key)

    def adopt_all(self, node: str) -> None:
        """Run the pods that are bound to a new machine already."""
        for entry in list(self._cache.table(PODS).entries.values()):
            if entry.raw["spec"].get("nodeName") == node:
                self.on_pod_change(None, entry)

    def apply_override_change(self, override: BehaviourOverride) -> int:
        """Change the behaviour of the running pods to which this override applies, or applied; returns their number."""
        now, count = self._times.now(), 0
        for key, lifecycle in self.pods.lifecycles.items():
            entry = self._pod_entry(key)
            if entry is not None and override.applies_to(pod := cast("Pod", entry.typed)):
                lifecycle.change_behaviour(self._behaviour_of(pod), now)
                self._queue.add(key)
                count += 1
        return count

    def _pod_entry(self, key: Key) -> CacheEntry | None:
        return self._cache.table(PODS).entries.get((key.namespace, key.name))

    def wake(self, pod: Raw, container: ContainerLifecycle) -> None:
        """Let the program of a container continue that waits for input, which is there now."""
        if container.process is not None:
            container.process.wake(self._times.now())
            self._queue.add(key_of_pod(pod))

    async def loaded_sandbox(self, pod: Raw) -> PodSandbox:
        """The sandbox of a running pod, with the configuration that its containers refer to."""
        sandbox = self.pods.sandbox_of(pod)
        if sandbox.config is NO_CONFIG:
            sandbox.load(await self._reports.read_config(pod, sandbox.references))
        return sandbox

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
        lifecycle = self.pods.lifecycles.get(key)
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
        self.pods.sandboxes[key].observe(raw)
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
        sandbox = self.pods.sandboxes[key] = PodSandbox(
            entry.raw, machine, self._rng, self._claim_files.of_claim, self._times.wall_time
        )
        lifecycle = PodLifecycle(
            pod, entry.raw, self._behaviour_of(pod), now, self._times.to_wall_time, sandbox.context_of
        )
        if pod.metadata.deletion_timestamp is not None:
            lifecycle.stop_at = now + lifecycle.behaviour.stop
        self.pods.lifecycles[key] = lifecycle
        resources = pod_resources_of(pod)
        if pod.status.phase == "Running" or self._admission.check(entry.raw, resources, machine.capacity) is None:
            self._admission.add(key, lifecycle.node, resources)
        else:
            lifecycle.is_admitted = False
        self._queue.add_after(key, 0.0 if lifecycle.is_admitted else REJECTION_SECONDS)

    def _forget(self, key: Key) -> None:
        self._queue.cancel_timer(key)
        if lifecycle := self.pods.remove(key):
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
        lifecycle, entry = self.pods.lifecycles.get(key), self._pod_entry(key)
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
        if not self.pods.sandboxes[key].is_created and not await self._create_sandbox(key, machine, entry):
            await self._report(lifecycle, entry, now)
            self._queue.add_after(key, SANDBOX_RETRY_SECONDS)
            return
        if not self.pods.sandboxes[key].is_loaded:
            await self._load_config(key, lifecycle, entry)
        due = lifecycle.advance(now)
        if due is None or due - now >= MIN_REPORTED_SECONDS:
            await self._report(lifecycle, entry, now)
        if lifecycle.is_finished:
            self._admission.remove(key, lifecycle.node)
        waits = [moment for moment in (due, lifecycle.stop_at) if moment is not None]
        if waits:
            self._queue.add_after(key, min(waits) - now)

    async def _create_sandbox(self, key: Key, machine: SimulatedMachine, entry: CacheEntry) -> bool:
        """Whether the container runtime has the handler of the pod's RuntimeClass."""
        handlers, name = machine.plan.pool.runtime_handlers, entry.raw["spec"].get("runtimeClassName")
        if name and handlers is not None:
            try:
                handler = await self._reports.read_runtime_handler(name)
            except NotFound as fault:
                self._events.record_sandbox_error(entry.raw, str(fault))
                return False
            if handler not in handlers:
                error = f'failed to get sandbox runtime: no runtime for "{handler}" is configured'
                self._events.record_sandbox_error(entry.raw, error)
                return False
        self.pods.sandboxes[key].is_created = True
        return True

    async def _load_config(self, key: Key, lifecycle: PodLifecycle, entry: CacheEntry) -> None:
        """Read the configuration of the pod; while something is missing, its containers wait."""
        sandbox = self.pods.sandboxes[key]
        config = await self._reports.read_config(entry.raw, sandbox.references)
        sandbox.config = config
        spec = entry.raw["spec"]
        containers = (*(spec.get("initContainers") or ()), *spec["containers"])
        lifecycle.config_errors = {one["name"]: error for one in containers if (error := sandbox.config_error(one))}
        sandbox.is_loaded = not lifecycle.config_errors

    async def _report(self, lifecycle: PodLifecycle, entry: CacheEntry, now: float) -> None:
        status = kubelet_status(lifecycle, entry.raw, now, self._machines[lifecycle.node].address)
        lifecycle.note_report(status)
        await self._reports.report(entry, status)
        self._events.record_report(entry.raw, status)

    async def _admit_or_reject(self, key: Key, lifecycle: PodLifecycle, entry: CacheEntry) -> None:
        """Reject a pod that exceeds the actual capacity, which may be less than the scheduler sees."""
        node, resources = lifecycle.node, pod_resources_of(cast("Pod", entry.typed))
        rejection = self._admission.check(entry.raw, resources, self._machines[node].capacity)
        if rejection is None:
            lifecycle.is_admitted = True
            self._admission.add(key, node, resources)
            self._queue.add(key)
            return
        self.pods.remove(key)
        await self._reports.write(entry, {"phase": "Failed", "reason": rejection.reason, "message": rejection.message})

    async def _finish_termination(self, lifecycle: PodLifecycle, entry: CacheEntry) -> None:
        """Report the end to owners that wait for it through finalizers, then delete the pod."""
        if entry.raw["metadata"].get("finalizers") and not lifecycle.is_finished:
            lifecycle.stop(self._times.now())
            await self._report(lifecycle, entry, self._times.now())
        await self._reports.delete(entry, lifecycle.uid)
