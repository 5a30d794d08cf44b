"""Drains a node: cordons it, evicts its pods as fast as budgets allow, and reports what blocks and until when."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.node import Node
from trimtab.api.value import Raw
from trimtab.client.client import Client, resource_of
from trimtab.clock import Clock, SteadyClock, timestamp
from trimtab.errors import (
    ApiError,
    Conflict,
    InputError,
    NotFound,
    TooManyRequests,
)
from trimtab.rescheduling.eviction_client import (
    PODS,
    RETRY_SECONDS,
    RETRYABLE,
    detailed_refusal_message,
    evict,
    eviction_body,
    refusal_message,
)
from trimtab.rescheduling.surge_replicas import SurgeReplicas

NODES = resource_of(kind_of(Node))
MAX_RETRY_SECONDS = 60.0
POLL_SECONDS = 1.0
BLOCKED_CONDITION_AFTER = timedelta(minutes=10)
"""A drain that is blocked for longer sets a condition on the node."""
SURGE_SECONDS = 300.0
BLOCKED = "DrainBlocked"
MAX_NAMED_PODS = 5


class DrainOptions(NamedTuple):
    """The options of a drain, named as in kubectl."""

    force: bool = False
    """Also evict pods that nothing would replace."""
    ignore_daemonsets: bool = False
    delete_emptydir_data: bool = False
    grace: int | None = None
    timeout: float | None = None
    disable_eviction: bool = False
    parallel: int = 50
    surge: bool = True
    dry_run: bool = False
    """Do not cordon or evict: only check what would happen now."""


DEFAULT_OPTIONS = DrainOptions()


class DrainStep(NamedTuple):
    """The state of one pod, or what it waits for."""

    pod: str
    state: str
    """Exempt, Blocked, Surging, Evicted, Gone or Failed; in a dry run also Free: it could be evicted now."""
    message: str = ""
    until: datetime | None = None


StepReporter = Callable[[DrainStep], None]


def ignore_step(step: DrainStep) -> None:
    """The default reporter: does nothing."""


class NodeDrain:
    """One drain of one node."""

    def __init__(
        self,
        client: Client,
        node: str,
        *,
        clock: Clock,
        options: DrainOptions = DEFAULT_OPTIONS,
        report: StepReporter = ignore_step,
    ) -> None:
        self._client, self._node, self._clock, self._options, self._report = client, node, clock, options, report
        self._steady_clock = SteadyClock(clock)
        self.steps: dict[str, DrainStep] = {}
        self._eviction_slots = asyncio.Semaphore(options.parallel)
        self._surge_replicas = SurgeReplicas(client)
        self._surge_locks: dict[str, asyncio.Lock] = {}
        self._failed_surges: set[tuple[str, str]] = set()
        """Deployments for which one more replica did not help."""
        self._condition_written = False

    async def run(self) -> list[DrainStep]:
        """Run until the node is empty or the timeout ends: then the steps name what is left and why."""
        if self._options.dry_run:
            return await self._dry_run()
        await self._client.patch(NODES, "", self._node, {"spec": {"unschedulable": True}}, manager="trimtab-drain")
        deadline = self._steady_now() + timedelta(seconds=self._options.timeout) if self._options.timeout else None
        seen: set[str] = set()
        try:
            while leaving := [
                pod for pod in self._pods_to_evict(await self._pods()) if pod["metadata"]["uid"] not in seen
            ]:
                seen |= {pod["metadata"]["uid"] for pod in leaving}  # a scheduler may not have seen the cordon yet
                await asyncio.gather(*(self._evict_and_wait(pod, deadline) for pod in leaving))
        finally:
            if self._condition_written:
                await self._report_end()
        return self._sorted_steps()

    def _sorted_steps(self) -> list[DrainStep]:
        return [self.steps[name] for name in sorted(self.steps)]

    async def _dry_run(self) -> list[DrainStep]:
        await self._client.get(NODES, "", self._node)
        for pod in self._pods_to_evict(await self._pods()):
            try:
                await evict(self._client, pod, eviction_body(pod, by="drain", dry_run=True))
            except ApiError as fault:
                until = self._now() + timedelta(seconds=fault.retry_after) if fault.retry_after else None
                self._record_step(pod, "Blocked", await detailed_refusal_message(self._client, pod, fault), until)
            else:
                self._record_step(pod, "Free")
        return self._sorted_steps()

    def _now(self) -> datetime:
        return self._clock.now()

    def _steady_now(self) -> datetime:
        """The time for time-outs, which goes on evenly when somebody sets the clock."""
        return self._steady_clock.now()

    async def _pods(self) -> list[Raw]:
        return list((await self._client.list(PODS, fields=f"spec.nodeName={self._node}")).items)

    def _record_step(self, pod: Raw, state: str, message: str = "", until: datetime | None = None) -> None:
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        step = DrainStep(name, state, message, until)
        if self.steps.get(name) != step:
            self.steps[name] = step
            self._report(step)

    # selection

    def _pods_to_evict(self, pods: list[Raw]) -> list[Raw]:
        """The pods to evict; raises when one of them must not be evicted."""
        leaving, complaints = [], []
        for pod in pods:
            if (why_exempt := exemption_reason(pod, self._options)) is not None:
                self._record_step(pod, "Exempt", why_exempt)
            elif (complaint := drain_refusal(pod, self._options)) is not None:
                complaints.append(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}: {complaint}")
            else:
                leaving.append(pod)
        if complaints:
            closed = "" if self._options.dry_run else " is cordoned but"
            raise InputError(f"{self._node}{closed} cannot be drained: " + "; ".join(complaints))
        return leaving

    # eviction

    async def _evict_and_wait(self, pod: Raw, deadline: datetime | None) -> None:
        """A slot is for terminating pods: a pod that waits for its budget does not block others."""
        if not await self._start_eviction(pod, deadline):
            return
        try:
            while await self._still_exists(pod):
                if deadline is not None and self._steady_now() >= deadline:
                    self._record_step(pod, "Failed", "it did not terminate in time")
                    return
                await asyncio.sleep(POLL_SECONDS)
            self._record_step(pod, "Gone")
        finally:
            self._eviction_slots.release()

    async def _start_eviction(self, pod: Raw, deadline: datetime | None) -> bool:
        """Evict with retries; True with a slot acquired, False when the timeout ended."""
        since, pause = self._steady_now(), RETRY_SECONDS
        while True:
            await self._eviction_slots.acquire()
            try:
                await self._request_eviction(pod)
            except (NotFound, Conflict):
                return True  # it ended by itself, or another pod has its name
            except RETRYABLE as fault:
                self._eviction_slots.release()
                wait = max(float(fault.retry_after or 0), pause) if isinstance(fault, ApiError) else pause
                pause = min(2 * pause, MAX_RETRY_SECONDS)
                message = await self._record_blocked(pod, fault, since)
                if (
                    isinstance(fault, TooManyRequests)
                    and not fault.retry_after
                    and await self._evict_with_surge(pod, deadline)
                ):
                    await self._eviction_slots.acquire()
                    return True
                if deadline is not None:
                    left = (deadline - self._steady_now()).total_seconds()
                    if left <= 0:
                        self._record_step(pod, "Failed", message, self.steps[_pod_name(pod)].until)
                        return False
                    wait = min(wait, left)
                await asyncio.sleep(wait)
            except ApiError as fault:
                self._eviction_slots.release()
                self._record_step(pod, "Failed", refusal_message(fault))
                return False
            else:
                self._record_step(pod, "Evicted")
                return True

    async def _request_eviction(self, pod: Raw) -> None:
        metadata = pod["metadata"]
        if self._options.disable_eviction:
            await self._client.delete(
                PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"], grace_seconds=self._options.grace
            )
            return
        await evict(self._client, pod, eviction_body(pod, by="drain", grace=self._options.grace))

    async def _record_blocked(self, pod: Raw, fault: ApiError | OSError | TimeoutError, since: datetime) -> str:
        """Record what blocks the pod and until when; returns the message."""
        now = self._now()
        if not isinstance(fault, ApiError):
            message, seconds = f"the API server cannot be reached: {str(fault) or type(fault).__name__}", 0
        else:
            message, seconds = await self._refusal_message(pod, fault), fault.retry_after or 0
        until = now + timedelta(seconds=seconds) if seconds else None
        known = self.steps.get(_pod_name(pod))
        same = known is not None and known.state == "Blocked" and known.message == message
        self._record_step(pod, "Blocked", message, known.until if same and known is not None and known.until else until)
        if max(self._steady_now() - since, timedelta(seconds=seconds)) >= BLOCKED_CONDITION_AFTER:
            await self._set_condition("True", "BlockedByBudget", self._describe_steps("Blocked"))
        return message

    def _describe_steps(self, *states: str) -> str:
        """The pods in these states and their messages, shortened."""
        left = [f"{step.pod}: {step.message}" for step in self._sorted_steps() if step.state in states]
        return "; ".join(
            [*left[:MAX_NAMED_PODS], *([f"and {len(left) - MAX_NAMED_PODS} more"] if left[MAX_NAMED_PODS:] else [])]
        )

    async def _refusal_message(self, pod: Raw, fault: ApiError) -> str:
        try:
            return await detailed_refusal_message(self._client, pod, fault)
        except (ApiError, OSError, TimeoutError):
            return refusal_message(fault)

    async def _still_exists(self, pod: Raw) -> bool:
        metadata = pod["metadata"]
        try:
            seen = await self._client.get(PODS, metadata["namespace"], metadata["name"])
        except NotFound:
            return False
        except RETRYABLE:
            return True  # unknown right now
        return bool(seen["metadata"]["uid"] == metadata["uid"])

    async def _report_end(self) -> None:
        left = self._describe_steps("Blocked", "Surging", "Failed")
        await self._set_condition("False", "DrainAbandoned" if left else "Drained", left)

    async def _set_condition(self, status: str, reason: str, message: str) -> None:
        """Set the condition of the node, for users who do not see this drain."""
        condition: Raw = {
            "type": BLOCKED,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(self._now()),
        }
        self._condition_written = True
        patch = {"status": {"conditions": [condition]}}
        with contextlib.suppress(ApiError):
            await self._client.patch(
                NODES, "", self._node, patch, type="strategic", subresource="status", manager="trimtab-drain"
            )

    # replacement first

    async def _evict_with_surge(self, pod: Raw, deadline: datetime | None) -> bool:
        """No replica can be spared: where allowed, add a replica first; True when the pod was evicted."""
        owner = await self._surge_replicas.deployment_of(pod) if self._options.surge else None
        if owner is None or owner in self._failed_surges:
            return False
        namespace, name = owner
        async with self._surge_locks.setdefault(f"{namespace}/{name}", asyncio.Lock()):
            self._record_step(pod, "Surging", f"one more replica of Deployment {name} starts first")
            until = self._steady_now() + timedelta(seconds=SURGE_SECONDS)
            try:
                await self._surge_replicas.add(namespace, name)
                helped = await self._retry_eviction_until(pod, until if deadline is None else min(until, deadline))
            except RETRYABLE:
                return False  # it is unknown whether it was added: it is tried again later
            finally:
                await self._surge_replicas.remove(namespace, name)
        if not helped:
            self._failed_surges.add(owner)  # some budgets count the added replica as required
        return helped

    async def _retry_eviction_until(self, pod: Raw, deadline: datetime) -> bool:
        while (left := (deadline - self._steady_now()).total_seconds()) > 0:
            await asyncio.sleep(min(RETRY_SECONDS, left))
            try:
                await self._request_eviction(pod)
            except (NotFound, Conflict):
                return True
            except RETRYABLE:
                continue
            self._record_step(pod, "Evicted", "its replacement was ready first")
            return True
        return False


def _pod_name(pod: Raw) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def exemption_reason(pod: Raw, options: DrainOptions) -> str | None:
    """Why a drain skips this pod; None when it must be evicted."""
    metadata = pod["metadata"]
    if "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
        return "it belongs to the node"
    controller = _controller(pod)
    if controller is not None and controller["kind"] == "Node":
        return "it belongs to the node"
    if controller is not None and controller["kind"] == "DaemonSet" and options.ignore_daemonsets:
        return "it belongs to a DaemonSet"
    return None


def drain_refusal(pod: Raw, options: DrainOptions) -> str | None:
    """Why a drain must not begin; None when the pod may be evicted."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return None
    controller = _controller(pod)
    if controller is None and not options.force:
        return "no controller would replace it (--force)"
    if controller is not None and controller["kind"] == "DaemonSet":
        return "it belongs to a DaemonSet (--ignore-daemonsets)"
    volumes: list[Raw] = pod["spec"].get("volumes") or []
    if any("emptyDir" in volume for volume in volumes) and not options.delete_emptydir_data:
        return "it would lose the data of its emptyDir (--delete-emptydir-data)"
    return None


def _controller(pod: Raw) -> Raw | None:
    owners: list[Raw] = pod["metadata"].get("ownerReferences") or []
    return next((one for one in owners if one.get("controller")), None)
