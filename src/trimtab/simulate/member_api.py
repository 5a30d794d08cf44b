"""The API server of a simulated member and the connections to it, with faults."""

import asyncio

from trimtab.client.client import Client
from trimtab.errors import Unavailable
from trimtab.server.apiserver import ApiServer
from trimtab.server.local import LocalClient
from trimtab.server.request.messages import ForwardedResponse, Request
from trimtab.simulate.faulty_client import FaultyMemberClient
from trimtab.simulate.unmanaged_reads import UnmanagedReads

KUBELET_HEAD_START_SECONDS = 0.1


class MemberApi:
    """How a simulated member is reached: by the control plane and users, by its controllers, by its kubelets."""

    def __init__(self, name: str, server: ApiServer) -> None:
        self.name = name
        self.server = server
        local = LocalClient(server)
        self._internal = FaultyMemberClient(UnmanagedReads(local), name)
        self._kubelet_client = FaultyMemberClient(UnmanagedReads(local), name)
        self._external = FaultyMemberClient(local, name)
        self._reopen_timer: asyncio.TimerHandle | None = None

    @property
    def client(self) -> Client:
        """The client of the control plane and of users."""
        return self._external

    @property
    def internal_client(self) -> Client:
        """The client of the cluster's own components, which partitions do not affect."""
        return self._internal

    async def handle(self, request: Request) -> ForwardedResponse:
        """Handle a request from outside."""
        try:
            return await self._external.forward(lambda: self.server.handler.handle_forwarded(request))
        except OSError as fault:
            raise Unavailable(str(fault)) from fault

    def partition(self, *, timeout_seconds: float = 0.0) -> None:
        """Cut the cluster off: connections are refused, or time out after so many seconds. Inside, all runs on."""
        self._external.cut_off(timeout_seconds=timeout_seconds)

    def heal(self) -> None:
        self._external.restore()

    def delay_requests(self, seconds: float) -> None:
        """Delay every request from outside by so many seconds; 0 removes the delay."""
        self._external.delay = seconds

    def stop_api(self) -> None:
        """Stop the API server: requests from outside fail, its own components wait."""
        if self._reopen_timer is not None:
            self._reopen_timer.cancel()
        self._external.cut_off()
        self._internal.pause()
        self._kubelet_client.pause()

    def start_api(self) -> None:
        """Start the API server again. Kubelets connect first: controllers would see expired leases and evict pods."""
        self._external.restore()
        self._kubelet_client.resume()
        self._reopen_timer = asyncio.get_running_loop().call_later(KUBELET_HEAD_START_SECONDS, self._internal.resume)

    @property
    def is_reachable(self) -> bool:
        return not self._external.is_cut_off
