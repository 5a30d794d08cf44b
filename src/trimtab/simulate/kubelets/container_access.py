"""What clients of the API do with simulated containers: read logs, run commands, attach, connect to ports."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from trimtab.api.value import Raw
from trimtab.errors import BadRequest
from trimtab.server.admission.dynamic.service_calls import ServerAnswer, ServerRequest
from trimtab.server.subresources.pod_runtime import KubeletAnswer, LogLine
from trimtab.simulate.containers.commands import run_command
from trimtab.simulate.containers.connections import Connection, Listener, Receive, Send, serve_http
from trimtab.simulate.containers.container_lifecycle import ContainerLifecycle
from trimtab.simulate.containers.environment import MissingConfig
from trimtab.simulate.containers.programs import ContainerContext
from trimtab.simulate.kubelets.container_logs import format_container_log
from trimtab.simulate.kubelets.loop_times import LoopTimes
from trimtab.simulate.kubelets.pod_lifecycle import PodLifecycle
from trimtab.simulate.kubelets.pod_workers import PodWorkers

FOLLOW_SECONDS = 0.5
"""How often the log of a container is read for a client that follows it."""


class ContainerAccess:
    """The containers of one cluster; before its kubelets are attached, none runs."""

    def __init__(self) -> None:
        self._workers: PodWorkers | None = None
        self._times: LoopTimes
        self._pages: Callable[[str, str, dict[str, str]], KubeletAnswer | None] = lambda *_: None
        self._turn = asyncio.Lock()
        """Held by the command that runs now."""

    def attach(self, workers: PodWorkers, times: LoopTimes) -> None:
        """Give access to the containers of these workers' pods; `times` converts their times."""
        self._workers, self._times = workers, times

    def serve_pages(self, respond: Callable[[str, str, dict[str, str]], KubeletAnswer | None]) -> None:
        """Let this function answer requests to kubelets: node, path and query."""
        self._pages = respond

    def ask_kubelet(self, node: str, path: str, query: dict[str, str]) -> KubeletAnswer | None:
        """The answer of a kubelet; None when it cannot be reached."""
        return self._pages(node, path, query)

    def read_log(self, pod: Raw, container: str, *, previous: bool) -> list[LogLine]:
        """The log of a container: what its program wrote, or, if that is not known, its starts and ends."""
        found = self._find(pod, container)
        if found is not None and found.process is not None:
            if found.running_since is not None:
                found.process.advance(self._times.now())
            log = found.previous_log if previous else found.process.log
            return [LogLine(self._times.to_wall_time(one.at), one.text) for one in (log.lines if log else ())]
        return [LogLine(None, one) for one in format_container_log(pod, container, previous=previous).splitlines()]

    def follow_log(self, pod: Raw, container: str) -> AsyncIterator[Sequence[LogLine]]:
        """What a running container writes after this call, until this run of it ends."""
        found = self._find(pod, container)
        written = found.process.log.written if found is not None and found.process is not None else 0
        return self._later_lines(pod, found, written)

    async def _later_lines(
        self, pod: Raw, found: ContainerLifecycle | None, written: int
    ) -> AsyncIterator[Sequence[LogLine]]:
        if found is None or found.running_since is None:
            return
        began, process, is_running = found.running_since, found.process, True
        while is_running:
            await asyncio.sleep(FOLLOW_SECONDS)
            is_running = found.running_since == began and self._find_pod(pod) is not None
            if process is None:
                continue
            if is_running:
                process.advance(self._times.now())
                is_running = process.exit_code is None
            if new := process.log.after(written):
                written = process.log.written
                yield [LogLine(self._times.to_wall_time(one.at), one.text) for one in new]

    async def run_command(
        self, pod: Raw, container: str, command: Sequence[str], text: str, write: Callable[[str], None]
    ) -> int:
        """Run a command in a container; one that is not simulated ends as if it did not exist."""
        try:
            context = await self._command_context(pod, container)
        except MissingConfig as fault:
            raise BadRequest(str(fault)) from None
        if context is None:
            raise BadRequest(f'container "{container}" is not running')
        return await run_command(command, text, context, write, self._turn)

    async def _command_context(self, pod: Raw, container: str) -> ContainerContext | None:
        """What a command in a running container of this pod sees; None if it does not run."""
        found = self._find(pod, container)
        if self._workers is None or found is None or found.running_since is None:
            return None
        sandbox = await self._workers.loaded_sandbox(pod)
        if found.context is None:  # its program is not known; commands see its files all the same
            found.context = sandbox.new_context(found.container)
        return found.context

    def send_input(self, pod: Raw, container: str, data: bytes | None) -> None:
        """Pass bytes to the standard input of a container that has one; None closes it."""
        found = self._find(pod, container)
        if found is None or found.context is None:
            return
        if data is None:
            found.context.stdin.close()
        else:
            found.context.stdin.feed(data)
        self._wake(pod, found)

    def respond(self, pod: Raw, request: ServerRequest) -> ServerAnswer | None:
        """The answer of a container to an HTTP request; None when nothing listens there."""
        for container in self._running_containers(pod):
            server = container.launch.server if container.launch is not None else None
            if server is not None and (len(server.ports) < 2 or request.port in server.ports):
                return server.respond(request)
        return None

    async def connect(self, pod: Raw, port: int, receive: Receive, send: Send) -> None:
        """Carry a connection to a port of the pod until one side ends it, or the container does.

        Raises ConnectionError when nothing listens there.
        """
        for container in self._running_containers(pod):
            launch = container.launch
            if launch is None:
                continue
            server = launch.server
            if server is not None and (not server.ports or port in server.ports):
                return await self._while_running(pod, container, serve_http(server.respond, port, receive, send))
            if launch.listener is not None and launch.listening_port == port:
                carried = self._carry(pod, container, launch.listener, receive, send)
                return await self._while_running(pod, container, carried)
        raise ConnectionError(f"dial tcp4 127.0.0.1:{port}: connect: connection refused")

    async def _while_running(self, pod: Raw, container: ContainerLifecycle, work: Coroutine[Any, Any, None]) -> None:
        """Run the work to its end, or until this run of the container ends."""
        began, task = container.running_since, asyncio.ensure_future(work)
        try:
            while not task.done() and container.running_since == began and self._find_pod(pod) is not None:
                await asyncio.wait({task}, timeout=FOLLOW_SECONDS)
            if task.done():
                task.result()
        finally:
            task.cancel()

    async def _carry(
        self, pod: Raw, container: ContainerLifecycle, listener: Listener, receive: Receive, send: Send
    ) -> None:
        connection = Connection(send)
        listener.waiting.append(connection)
        self._wake(pod, container)

        async def pass_on() -> None:
            while (data := await receive()) is not None:
                connection.received.feed(data)
                self._wake(pod, container)
            connection.received.close()
            self._wake(pod, container)

        passing = asyncio.ensure_future(pass_on())
        try:
            await connection.ended.wait()
        finally:
            passing.cancel()
            with contextlib.suppress(ValueError):  # unless the program has accepted it
                listener.waiting.remove(connection)

    def _find_pod(self, pod: Raw) -> PodLifecycle | None:
        return self._workers.pods.find_lifecycle(pod) if self._workers is not None else None

    def _find(self, pod: Raw, container: str) -> ContainerLifecycle | None:
        lifecycle = self._find_pod(pod)
        return lifecycle.container(container) if lifecycle is not None else None

    def _running_containers(self, pod: Raw) -> list[ContainerLifecycle]:
        lifecycle = self._find_pod(pod)
        containers = lifecycle.containers if lifecycle is not None else ()
        return [container for container in containers if container.running_since is not None]

    def _wake(self, pod: Raw, container: ContainerLifecycle) -> None:
        if self._workers is not None:
            self._workers.wake(pod, container)
