"""A control plane, its API server and a simulated fleet in one process, with data in a directory."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.profile import PROFILES, Profile
from trimtab.api.value import Raw
from trimtab.app import ControlPlane
from trimtab.client.client import resource_of
from trimtab.client.kubeconfig import Credentials
from trimtab.client.otlp import TraceTarget
from trimtab.client.webhook import WebhookTarget
from trimtab.clock import WallClock
from trimtab.console.application import Console
from trimtab.console.code_flow import CodeFlow
from trimtab.console.page import Services, StoryBook
from trimtab.console.permissions import LocalAuthority, UserClients
from trimtab.controllers.selection import IsEnabled
from trimtab.embedded_fleet import EmbeddedFleet, endpoint_of
from trimtab.errors import InputError, NotFound, StorageFailed, Unauthorized
from trimtab.members.agent import Heartbeat
from trimtab.members.agent_approval import AgentApproval
from trimtab.members.join import (
    CLUSTER_NAMESPACE,
    claim_member,
    cluster_id,
    create_account,
    create_impersonator,
    store_token,
)
from trimtab.members.member_rights import ALL_RIGHTS
from trimtab.members.registration import Registration
from trimtab.runtime.cache import Cache
from trimtab.runtime.control_plane_identity import read_identity
from trimtab.runtime.lua_worker import LuaWorker
from trimtab.runtime.observe_only import continue_restore, run_when_released
from trimtab.server.admission.federated_quota import FederatedQuotaCheck
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.admission.requesters import Requesters
from trimtab.server.auth.authenticate import ANONYMOUS_USER
from trimtab.server.auth.oidc_issuer import OidcIssuer
from trimtab.server.auth.user import User
from trimtab.server.background.certificate_signing import CertificateSigning
from trimtab.server.daemon import ADMINISTRATOR, ADMINISTRATOR_USER, Daemon, RootServer, ServedApplications
from trimtab.server.flowcontrol.controller import FlowLimits
from trimtab.server.http.audit import AuditSettings
from trimtab.server.http.exchange import Application
from trimtab.server.http.paced_application import PacedApplication
from trimtab.server.mount import Mount
from trimtab.server.storage.field_renames import rename_fields
from trimtab.simulate.components.cluster_objects import ApiServerAddress, api_server_objects
from trimtab.simulate.components.finished_jobs import FinishedJobs
from trimtab.simulate.components.legacy_tokens import LegacyTokens, issuer_of_legacy_tokens
from trimtab.simulate.components.start_objects import create_start_objects
from trimtab.simulate.fleet import FleetPlan, default_fleet, pull_last_members, with_system_workloads
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.member_api import MemberApi
from trimtab.store.files import replace_file
from trimtab.tasks import stop_tasks

log = logging.getLogger("trimtab.local_fleet")

CLUSTERS = resource_of(kind_of(Cluster))
CONSOLE_ON, CONSOLE_READ_ONLY, CONSOLE_OFF = "on", "read-only", "off"
HTTPS_PORT = 443
STATE_FILE = "controllers.state"
"""In the data directory: what the controllers knew when they stopped."""
MAX_MEMBERS_WITH_PORTS = 100
"""Members of larger fleets have a path on the port of the control plane, so that there are enough file descriptors."""


class LocalFleetOptions(NamedTuple):
    """What `trimtab up` offers besides the address, the members and the controllers' settings."""

    flow_control: FlowLimits = FlowLimits()
    stories: StoryBook | None = None
    contexts: Sequence[str] = ()
    """Further names of the control plane in the kubeconfig."""
    audit: AuditSettings | None = None
    encryption: Path | None = None
    pull: int | None = None
    """The number of Pull members."""
    system_workloads: bool = False
    console_mode: str = CONSOLE_ON
    allow_no_execute_taints: bool = False
    bootstrap_tokens: bool = False
    """Whether clusters may register themselves."""
    notify: WebhookTarget | None = None
    trace: TraceTarget | None = None
    oidc: OidcIssuer | None = None
    """The issuer at which users sign in."""
    is_enabled: IsEnabled = lambda _: True
    """Selects the controllers."""


class LocalFleet:
    """Everything that `trimtab up` runs; `open`, then `start`, at the end `stop`."""

    def __init__(
        self,
        data_dir: Path,
        bind: str,
        port: int,
        plan: FleetPlan | None,
        profile: str,
        settings: Mapping[str, Any],
        options: LocalFleetOptions = LocalFleetOptions(),  # noqa: B008 - a frozen value
    ) -> None:
        """Without a plan the members are those of the previous start, at the first start a default fleet."""
        self._options = options
        self.daemon = new_daemon(data_dir, bind, port, PROFILES[profile], settings, options)
        self._plan_file = self.daemon.directory / "fleet.json"
        self._endpoints_file = self.daemon.directory / "endpoints.json"
        self._earlier_endpoints: dict[str, str] = {}
        stored = read_stored_plan(self._plan_file)
        self._stored = {member.name for member in stored.members} if stored is not None else set()
        self._plan = plan_with_options(plan or stored or default_fleet(), options)
        self._scripts = LuaWorker()
        self.fleet = EmbeddedFleet(
            self._plan,
            host=self.daemon.api,
            clock=WallClock(),
            profile=PROFILES[profile],
            settings=settings,
            directory=self.daemon.directory / "members",
            scripts=self._scripts.submit,
            whole_clusters=True,
            notify=options.notify,
            trace=options.trace,
            is_enabled=options.is_enabled,
            # Where objects are encrypted, no file has them in plain text.
            state_file=self.daemon.directory / STATE_FILE if options.encryption is None else None,
        )
        for member in self.fleet.world:
            member.server.authenticator.add_static_token(self.daemon.admin_token, ADMINISTRATOR_USER)
        oidc = options.oidc
        self.daemon.api.authenticator.id_tokens = oidc.id_tokens if oidc is not None else None
        self.console = new_console(self.daemon, self.fleet, options)
        self.reason_to_observe = ""
        """Why the controllers do not run until `trimtab release`; empty when they run."""
        self._controllers: asyncio.Task[None] | None = None
        self._has_decided = asyncio.Event()
        """Whether it is known if the controllers may run; if so, they do."""

    @property
    def members(self) -> list[str]:
        return [member.name for member in self.fleet.world]

    @property
    def console_url(self) -> str:
        """A link that signs in to the console as the administrator, once; empty when it is switched off."""
        if self._options.console_mode == CONSOLE_OFF:
            return ""
        return self.daemon.url + self.console.login_path(ADMINISTRATOR, self.daemon.admin_token)

    async def open(self) -> None:
        """Serve the API; objects can be written before the controllers run."""
        if self._options.oidc is not None:
            self._options.oidc.start()
        world = self.fleet.world
        servers = {f"/members/{member.name}": member.server.app for member in world}
        console = {"/console": self._paced_console()} if self._options.console_mode != CONSOLE_OFF else {}
        app = Mount(self.daemon.api.app, {**servers, **console})
        self._earlier_endpoints = read_endpoints(self._endpoints_file)
        with_ports = world if len(world) <= MAX_MEMBERS_WITH_PORTS else ()
        ports = {
            member.name: RootServer(member.server.app, port_of(self._earlier_endpoints.get(member.name, "")))
            for member in with_ports
        }
        paths = {member.name: f"/members/{member.name}" for member in world}
        await self.daemon.start(ServedApplications(app, paths, ports))
        self.fleet.endpoints = self.daemon.server_urls

    def _paced_console(self) -> Application:
        """The console, whose requests share the event loop with those of the API."""
        flows, authenticator = self.daemon.api.flow_control, self.daemon.api.authenticator

        def user_of(headers: Mapping[bytes, bytes]) -> User:
            user = self.console.user_of(headers)
            if user is not ANONYMOUS_USER:
                return user
            try:
                return authenticator.authenticate(headers.get(b"authorization", b"").decode("latin-1"), None)
            except Unauthorized:
                return ANONYMOUS_USER

        return self.console if flows is None else PacedApplication(self.console, flows, user_of)

    async def start(self) -> None:
        """Start the members and the controllers, and join the members that are new in the plan."""
        world = self.fleet.world
        certificate = self.daemon.authority_certificate.decode()
        for member in world:
            server = urlsplit(self.fleet.endpoint(member.name))
            if isinstance(member, SimulatedMember) and server.hostname and server.port:
                member.address = ApiServerAddress(server.hostname, server.port, certificate)
                member.pass_client_authority_to(partial(self.daemon.trust_clients, member.name))
        await world.start()
        await self._create_host_objects()
        for member in world:
            if member.name not in self._stored:  # a member that the user has unjoined stays unjoined
                await self.fleet.join(member.plan, await self._identity_of(member))
            else:
                await self._update_endpoint(member)
        self._store_plan()
        await continue_restore(self.daemon.directory, self.fleet.client)
        create_task = asyncio.get_running_loop().create_task
        work = run_when_released(self.fleet.client, self._run_controllers, self._report_observing)
        self._controllers = create_task(work, name="controllers")
        decided = create_task(self._has_decided.wait())
        await asyncio.wait({decided, self._controllers}, return_when=asyncio.FIRST_COMPLETED)
        decided.cancel()
        if self._controllers.done():
            self._controllers.result()

    async def _create_host_objects(self) -> None:
        """Create the Service of the API server, as every API server does; without room for it, not."""
        own = urlsplit(self.daemon.url)
        address = ApiServerAddress(own.hostname or "127.0.0.1", own.port or HTTPS_PORT, "")
        with suppress(StorageFailed):
            await create_start_objects(
                self.fleet.client, self.daemon.api.catalogue, api_server_objects(address), "kube-apiserver"
            )

    def _report_observing(self, reason: str) -> None:
        self.reason_to_observe = reason
        self._has_decided.set()

    async def _run_controllers(self) -> None:
        """Run the controllers and what answers requests of agents, until it is cancelled."""
        client, clock, daemon = self.fleet.client, WallClock(), self.daemon
        self.reason_to_observe = ""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.fleet.stop_plane)
            await self.fleet.start_plane()
            self.attach_console()
            agents = PullAgents(self.fleet)
            stack.push_async_callback(agents.stop)
            await agents.start()
            cache = Cache(client)
            stack.push_async_callback(cache.close)
            issuer = issuer_of_legacy_tokens(daemon.api.tokens, clock.now)
            tokens = LegacyTokens(cache, client, issuer, daemon.authority_certificate.decode())
            stack.callback(tokens.stop)
            await tokens.start()
            finished_jobs = FinishedJobs(cache, client, clock.now)
            stack.callback(finished_jobs.stop)
            await finished_jobs.start()
            # The requests of agents are approved, and what is approved is signed.
            signing, approval = CertificateSigning(client, daemon.authority, clock.now), AgentApproval(client, clock)
            create_task = asyncio.get_running_loop().create_task
            tasks = [create_task(signing.run()), create_task(approval.run())]
            stack.push_async_callback(stop_tasks, tasks, log)
            if self._options.bootstrap_tokens:
                registration = Registration(client, daemon.api.authorizer, daemon.authority, daemon.url, clock.now)
                stack.push_async_callback(registration.stop)
                await registration.start()
            self._has_decided.set()
            await asyncio.Event().wait()

    def attach_console(self) -> None:
        """Let the console read from the control plane that runs now."""
        if self.fleet.plane is not None:
            self.console.attach(self.fleet.plane.cache)

    async def _identity_of(self, member: MemberApi) -> Raw:
        """What the Cluster of a member says besides: its id, and a new token for clients outside of this process."""
        own = (await read_identity(self.fleet.client)).own
        await claim_member(member.client, member.name, own, take_over=True)
        token = await create_account(member.client, member.name, ALL_RIGHTS, proxies=True)
        await store_token(self.fleet.client, member.name, token, self.daemon.authority_certificate)
        reference = {"namespace": CLUSTER_NAMESPACE, "name": member.name}
        identity: Raw = {"id": await cluster_id(member.client), "secretRef": reference}
        if self.fleet.profile.name == "upstream":
            secret = f"{member.name}-impersonator"
            token = await create_impersonator(member.client)
            await store_token(self.fleet.client, secret, token, self.daemon.authority_certificate)
            identity["impersonatorSecretRef"] = {"namespace": CLUSTER_NAMESPACE, "name": secret}
        return identity

    async def _update_endpoint(self, member: MemberApi) -> None:
        """Correct the address of a joined member that an earlier start served elsewhere."""
        try:
            cluster = await self.fleet.client.get(CLUSTERS, "", member.name)
        except NotFound:
            return
        spec, endpoint = cluster["spec"], self.fleet.endpoint(member.name)
        own = {endpoint_of(member.name), self._earlier_endpoints.get(member.name)}
        if spec.get("apiEndpoint") in own - {endpoint}:
            change = {"apiEndpoint": endpoint}
            if not spec.get("secretRef"):
                change |= await self._identity_of(member)
            await self.fleet.client.patch(CLUSTERS, "", member.name, {"spec": change}, manager="trimtab-up")

    def _store_plan(self) -> None:
        """Store the fleet and its addresses for the next start."""
        store_json(self._plan_file, self._plan)
        store_json(self._endpoints_file, self.fleet.endpoints)

    async def stop(self) -> None:
        for member in self.fleet.world:
            member.server.app.end_streams()
        await self.console.close()
        if self._controllers is not None:
            await stop_tasks([self._controllers], log)
        await self.daemon.stop()
        await self.fleet.world.stop()
        self._scripts.close()


class PullAgents:
    """The agents of the Pull members: the same controllers as `trimtab agent`, in this process."""

    def __init__(self, fleet: EmbeddedFleet) -> None:
        self._fleet = fleet
        self._planes: list[ControlPlane] = []
        self._heartbeats: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        for member in self._fleet.world:
            if member.plan.pull:
                heartbeat = Heartbeat(self._fleet.client, member.name, WallClock())
                self._heartbeats.append(asyncio.get_running_loop().create_task(heartbeat.run()))
                self._planes.append(self._fleet.make_agent(member.name))
                await self._planes[-1].start()

    async def stop(self) -> None:
        for heartbeat in self._heartbeats:
            heartbeat.cancel()
        for plane in self._planes:
            await plane.stop()


def store_json(path: Path, value: Any) -> None:
    """Write a file unless it has this content; a full disk keeps the file of an earlier start."""
    content = msgspec.json.encode(value)
    if path.exists() and path.read_bytes() == content:
        return
    try:
        replace_file(path, content)
    except OSError as error:
        log.warning("%s was not written (%s): the next start has the fleet of an earlier one", path, error)


def read_endpoints(path: Path) -> dict[str, str]:
    """The addresses of the members at the previous start; none if the file cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def port_of(endpoint: str) -> int:
    """The port of an address at the root of a port; 0 for any other address."""
    parsed = urlsplit(endpoint)
    return parsed.port or 0 if not parsed.path else 0


def read_stored_plan(path: Path) -> FleetPlan | None:
    """The fleet of the previous start."""
    if not path.exists():
        return None
    try:
        stored = rename_fields(msgspec.json.decode(path.read_bytes()), {("binder",): "scheduler"})
        return msgspec.convert(stored, FleetPlan)
    except msgspec.MsgspecError as error:
        raise InputError(f"cannot read {path}: {error}; delete it to start with another fleet") from error


def new_daemon(
    data_dir: Path, bind: str, port: int, profile: Profile, settings: Mapping[str, Any], options: LocalFleetOptions
) -> Daemon:
    """The API server with the checks that the peers do in webhooks."""
    peer_webhooks = PeerWebhooks(allow_no_execute_taints=options.allow_no_execute_taints)
    return Daemon(
        data_dir,
        bind,
        port,
        plugins=[peer_webhooks, Requesters()],
        store_plugins=[FederatedQuotaCheck] if settings.get("quota-enforcement") else [],
        flow_control=options.flow_control,
        further_contexts=options.contexts,
        audit=options.audit,
        encryption=options.encryption,
        bootstrap_tokens=options.bootstrap_tokens,
        progress_columns=profile.show_progress_columns,
    )


def plan_with_options(plan: FleetPlan, options: LocalFleetOptions) -> FleetPlan:
    if options.pull is not None:
        plan = pull_last_members(plan, options.pull)
    return with_system_workloads(plan) if options.system_workloads else plan


def new_console(daemon: Daemon, fleet: EmbeddedFleet, options: LocalFleetOptions) -> Console:
    """The console of a fleet in this process; forms are sent to the API over its own listener, as any client does."""

    def credentials() -> Credentials:
        return Credentials(daemon.url, ca=daemon.authority_certificate)

    services = Services(
        profile=fleet.profile,
        settings=fleet.settings,
        last_decision=fleet.debug_pages.last_decision,
        placement_outcomes=fleet.debug_pages.placement_outcomes,
        stories=options.stories,
        simulated=fleet.simulated_members,
        faults=lambda: fleet.faults.current,
        inject_fault=fleet.inject_fault,
        is_read_only=options.console_mode == CONSOLE_READ_ONLY,
    )
    authority = LocalAuthority(daemon.api.authenticator, daemon.api.authorizer, UserClients(credentials))
    now = WallClock().now
    console = Console(
        authority,
        now,
        services=services,
        session_file=daemon.directory / "pki" / "console-sessions.json",
        history_file=daemon.directory / "decisions.jsonl",
        code_flow=CodeFlow(options.oidc, now) if options.oidc is not None else None,
    )
    fleet.faults.add_listener(lambda name: console.model.count_change("clusters", f"cluster:{name}"))
    return console
