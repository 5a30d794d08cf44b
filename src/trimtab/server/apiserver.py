"""Assembles an API server for `trimtab apiserver`, `trimtab up` and simulated member clusters."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from trimtab.api import kinds as kind_modules
from trimtab.api.kind import Kind, OtherVersion, ValidateFunction, kinds
from trimtab.api.kinds.native.component_status import ComponentStatus
from trimtab.api.kinds.native.event import to_core, to_events_v1
from trimtab.api.kinds.native.flow_control import GROUP as FLOW_CONTROL_GROUP
from trimtab.api.kinds.native.metrics import GROUP as METRICS_GROUP
from trimtab.api.schema.from_types import crd, schema_for
from trimtab.api.value import Raw
from trimtab.clock import Clock, WallClock, timestamp
from trimtab.errors import Expired, StorageFailed, StorageFull, Unavailable
from trimtab.registry import discover
from trimtab.server.admission.budget_warnings import BudgetWarnings
from trimtab.server.admission.builtin_defaults import BuiltinDefaults
from trimtab.server.admission.certificate_requests import CertificateRequests
from trimtab.server.admission.chain import AdmissionChain, AdmissionPlugin, ClockedPlugin
from trimtab.server.admission.create_authorization import CreateAuthorization
from trimtab.server.admission.dynamic.admission_policies import AdmissionPolicies
from trimtab.server.admission.dynamic.match_conditions import VARIABLES as CONDITION_VARIABLES
from trimtab.server.admission.dynamic.match_conditions import condition_validator
from trimtab.server.admission.dynamic.policy_expressions import ADMISSION_POLICIES, PolicyExpressions, policy_validator
from trimtab.server.admission.dynamic.service_calls import ServiceCalls
from trimtab.server.admission.dynamic.webhooks import GROUP as WEBHOOK_GROUP
from trimtab.server.admission.dynamic.webhooks import MUTATING_HOOKS, VALIDATING_HOOKS, WebhookAdmission
from trimtab.server.admission.limit_ranges import LimitRanger
from trimtab.server.admission.pdb_rate_history import PdbRateHistory
from trimtab.server.admission.priority_order import PriorityOrderCheck
from trimtab.server.admission.rbac_escalation import RbacEscalation
from trimtab.server.admission.reference_authorization import ReferenceAuthorization
from trimtab.server.admission.runtime_class import RuntimeClassAdmission
from trimtab.server.aggregation.aggregator import GROUP as API_REGISTRATION_GROUP
from trimtab.server.aggregation.aggregator import Aggregator
from trimtab.server.auth.authenticate import Authenticator, ServiceAccountTokens
from trimtab.server.auth.authorize import GROUP as RBAC_GROUP
from trimtab.server.auth.authorize import Authorizer
from trimtab.server.auth.bootstrap_tokens import BootstrapTokens
from trimtab.server.auth.token_keys import KeyRing, SharedSecret
from trimtab.server.auth.user import Caller, User
from trimtab.server.background.admission_policy_status import AdmissionPolicyStatus
from trimtab.server.background.api_service_objects import local_api_services
from trimtab.server.background.bootstrap import bootstrap_objects, fleet_roles
from trimtab.server.background.bootstrap_roles import update_bootstrap_roles
from trimtab.server.background.event_expiry import EventExpiry
from trimtab.server.background.flow_control_objects import FlowControlObjects
from trimtab.server.background.garbage_collector import GarbageCollector
from trimtab.server.background.object_quota_status import ObjectQuotaStatus
from trimtab.server.background.start_image import StartImage
from trimtab.server.discovery.discovery import Discovery
from trimtab.server.discovery.openapi import OpenApi
from trimtab.server.flowcontrol.controller import FlowController, FlowLimits
from trimtab.server.http.access_reviews import AccessReviews
from trimtab.server.http.asgi import AsgiApplication
from trimtab.server.http.backup_page import BackupPage
from trimtab.server.http.dispatch import RequestHandler
from trimtab.server.http.issuer_pages import IssuerPages
from trimtab.server.http.nonresource_paths import HealthCheck, NonResourcePaths
from trimtab.server.registry.cel_rules import NoExpressions, condition_evaluator, rule_evaluator
from trimtab.server.registry.crds import CRD, PREFIX, CrdController, schema_validator
from trimtab.server.registry.object_deletion import no_further_writes
from trimtab.server.registry.object_reader import ComputedObjects
from trimtab.server.registry.object_schema import ObjectSchema
from trimtab.server.registry.patch_requests import Patcher
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.registry.webhook_changes import WebhookChanges
from trimtab.server.resources import ObjectPath, ResourceCatalogue, ServedResource
from trimtab.server.storage.object_codec import pack
from trimtab.server.storage.uids import random_uid
from trimtab.server.subresources.dispatch import Subresources
from trimtab.server.subresources.eviction import DirectDeletionEvents
from trimtab.server.subresources.pod_runtime import PodRuntime
from trimtab.store.keys import key_below, resource_prefix
from trimtab.store.store import Store
from trimtab.store.txn import PutKey
from trimtab.tasks import stop_tasks
from trimtab.telemetry import HistogramSeries, Sample

_ROLES_PREFIX = resource_prefix(RBAC_GROUP, "clusterroles")
_RETRY_SECONDS = 10.0
_START_HOOKS = (
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "storage-readiness",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "bootstrap-controller",
    "start-system-namespaces-controller",
    "start-service-ip-repair-controllers",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "rbac/bootstrap-roles",
    "start-cluster-authentication-info-controller",
    "start-kube-aggregator-informers",
    "apiservice-registration-controller",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "kube-apiserver-autoregistration",
    "apiservice-openapi-controller",
)
_START_CHECKS = (*(f"poststarthook/{name}" for name in _START_HOOKS), "autoregister-completion")
"""Checks of kube-apiserver for what it does after its start; here all of it is done when `ApiServer.start` ends."""
log = logging.getLogger("trimtab.server")


class ApiServerSettings(NamedTuple):
    """Settings of one API server."""

    clock: Clock = WallClock()
    static_tokens: Mapping[str, User] = {}
    token_key: bytes = b""
    """The secret of service account tokens of a server within one process."""
    token_keys: KeyRing | None = None
    """The keys of service account tokens that others can verify; used instead of `token_key`."""
    anonymous_auth: bool = True
    """Let requests without credentials through to authorization, as the user `system:anonymous`."""
    bootstrap_tokens: bool = False
    """Accept the tokens of Secrets of type `bootstrap.kubernetes.io/token`."""
    plugins: Sequence[AdmissionPlugin] = ()
    """Further admission plugins, such as policy admission in `trimtab up`."""
    store_plugins: Sequence[Callable[[Store], AdmissionPlugin]] = ()
    """Constructors of further admission plugins that read the store."""
    default_tolerations: bool = True
    """Let new pods tolerate a node that is not ready or unreachable for a while (DefaultTolerationSeconds)."""
    new_uid: Callable[[], str] = random_uid
    garbage_collection: bool = True
    """Run the garbage collector and expire events, as kube-controller-manager and kube-apiserver do."""
    api_services: bool = False
    """Store an APIService for every group version, as the aggregator of kube-apiserver does."""
    front_proxy: Path | None = None
    """Where the certificate for the API servers of APIServices is kept; None: requests are not forwarded to any."""
    object_quota_status: bool = False
    """Report in ResourceQuotas what objects other than pods use, as kube-controller-manager does."""
    namespace_grace_seconds: float = 0.0
    """Seconds from the deletion of a namespace to that of its objects; kube-controller-manager waits 5 seconds."""
    check_all_budgets: bool = False
    """Check all budgets of a pod on eviction; Kubernetes rejects the eviction of a pod with more than one."""
    old_streamed_lists: bool = False
    """Stream lists as before Kubernetes 1.35: never as tables, and always with an empty list of their kind at the end."""
    fleet_roles: bool = False
    """Let the roles `view`, `edit` and `admin` include the kinds of a control plane."""
    progress_columns: bool = False
    """Print the columns of the profile `trimtab` for kinds of the peers."""
    runtime: PodRuntime | None = None
    """The containers of the cluster; None when there is no kubelet."""
    serves: Callable[[Kind], bool] = lambda _: True
    """Selects the kinds to serve; a member cluster serves none of the control plane's."""
    flow_control: FlowLimits | None = None
    """Limits for the requests of all callers; None: no limits, and the kinds that configure them are not served."""
    flow_control_objects: bool = False
    """Serve the kinds that configure flow control also without limits of its own, as every cluster does."""
    shared_flow_control: FlowController | None = None
    """The flow control of another API server of this process: a caller has one share, whichever server it calls."""
    start_image: StartImage | None = None
    """What servers in memory with the same settings start with; the first one fills it."""
    computed: Mapping[str, ComputedObjects] = {}
    """Sources of computed, never stored objects by kind id; a computed kind without a source is not served."""


class ApiServer:
    """One API server with its store and its background tasks."""

    def __init__(self, store: Store, settings: ApiServerSettings = ApiServerSettings()) -> None:  # noqa: B008 - a frozen value
        _load_kinds()
        self.store = store
        self._namespace_grace_seconds = settings.namespace_grace_seconds
        self.catalogue = ResourceCatalogue()
        conditions = condition_evaluator(*CONDITION_VARIABLES)
        self.object_schema = ObjectSchema(rule_evaluator(), _server_rules(conditions.compile_error))
        self.authorizer = Authorizer(store)
        self.service_calls = ServiceCalls(store, settings.runtime)
        self.webhooks = WebhookAdmission(
            store, self.authorizer, WebhookChanges(self.object_schema).accept, conditions, self.service_calls
        )
        self.policies = AdmissionPolicies(store, self.authorizer, self.catalogue)
        self.admission = AdmissionChain(store.get, self._admission_plugins(settings))
        self.resource_store = self._resource_store(settings)
        self.aggregator = Aggregator(self.resource_store, self.service_calls, settings.front_proxy)
        self.tokens = tokens = ServiceAccountTokens(
            settings.token_keys or SharedSecret(settings.token_key or secrets.token_bytes(32)), store.get
        )
        self.authenticator = Authenticator(
            tokens,
            settings.static_tokens,
            settings.clock.now,
            allows_anonymous=settings.anonymous_auth,
            bootstrap_tokens=BootstrapTokens(store.get) if settings.bootstrap_tokens else None,
        )
        self.patcher = Patcher(self.resource_store)
        self._metric_sources: list[Callable[[], Iterable[Sample]]] = []
        self._histogram_sources: list[Callable[[], Iterable[HistogramSeries]]] = []
        self.nonresource_paths = NonResourcePaths(
            self.catalogue, Discovery(self.catalogue), OpenApi(self.catalogue), self._health_checks(), self._metrics
        )
        self.nonresource_paths.add_page("backup", BackupPage(store, self.authorizer))
        if settings.token_keys is not None:
            for name in (".well-known", "openid"):
                self.nonresource_paths.add_page(name, IssuerPages(settings.token_keys))
        self.subresources = Subresources(
            self.resource_store,
            self.patcher,
            tokens,
            several_budgets=settings.check_all_budgets,
            runtime=settings.runtime,
            calls=self.service_calls,
            connection_checks=(self.webhooks, self.policies),
        )
        self.handler = self._request_handler(old_streamed_lists=settings.old_streamed_lists)
        self.crds = CrdController(self.resource_store, self.object_schema, self.service_calls)
        self.flow_control_objects = FlowControlObjects(self.resource_store, self._invalidate_flows)
        self.flow_control = self._flow_controller(settings)
        self._own_flow_control: FlowController | None = None
        if settings.shared_flow_control is not None and settings.flow_control_objects:
            self._own_flow_control = FlowController(FlowLimits(), self.flow_control_objects.read)
        shared = settings.shared_flow_control or self.flow_control
        self.app = AsgiApplication(self.handler, shared, self._own_flow_control)
        self._garbage_collection = settings.garbage_collection
        self._registers_api_services = settings.api_services
        self._counts_quota_objects = settings.object_quota_status
        self._has_flow_control_objects = settings.flow_control is not None or settings.flow_control_objects
        self._background_tasks: list[asyncio.Task[None]] = []
        self._is_started = False
        self._progress_columns = settings.progress_columns
        self._has_fleet_roles = settings.fleet_roles
        self._start_image = settings.start_image
        self._new_uid = settings.new_uid
        self._kinds = [kind for kind in kinds.values() if _is_served(kind, settings)]
        columns = settings.progress_columns
        self.catalogue.add(
            *(served for kind in self._kinds for served in served_resources_of(kind, progress_columns=columns))
        )

    def add_metrics(
        self, samples: Callable[[], Iterable[Sample]], histograms: Callable[[], Iterable[HistogramSeries]] = tuple
    ) -> None:
        """Serve the metrics of the program that embeds this server as well."""
        self._metric_sources.append(samples)
        self._histogram_sources.append(histograms)

    def _resource_store(self, settings: ApiServerSettings) -> ResourceStore:
        return ResourceStore(
            self.store,
            self.catalogue,
            settings.clock,
            self.admission,
            self.object_schema,
            new_uid=settings.new_uid,
            computed=settings.computed,
            on_group_write={
                API_REGISTRATION_GROUP: self._reload_api_services,
                RBAC_GROUP: self.authorizer.invalidate,
                WEBHOOK_GROUP: self.admission.reset_cache,
                FLOW_CONTROL_GROUP: self._invalidate_flows,
            },
            deletion_writes=DirectDeletionEvents(settings.clock) if settings.check_all_budgets else no_further_writes,
        )

    def _reload_api_services(self) -> None:
        self.aggregator.reload()

    def _flow_controller(self, settings: ApiServerSettings) -> FlowController | None:
        """What limits the requests of all callers; None for a server that only this process uses."""
        if settings.flow_control is None:
            return None
        return FlowController(settings.flow_control, self.flow_control_objects.read, lambda: self.store.is_gathering)

    def _invalidate_flows(self) -> None:
        for one in (self.flow_control, self._own_flow_control):
            if one is not None:
                one.invalidate()

    def _admission_plugins(self, settings: ApiServerSettings) -> list[AdmissionPlugin]:
        """All admission plugins in the order in which they run; webhooks and policies come last."""
        plugins: list[AdmissionPlugin] = [
            CreateAuthorization(self.authorizer),
            RuntimeClassAdmission(self.store),
            LimitRanger(self.store),
            BuiltinDefaults(self.store, default_tolerations=settings.default_tolerations),
            PriorityOrderCheck(self.store),
            RbacEscalation(self.authorizer),
            CertificateRequests(self.authorizer),
            ReferenceAuthorization(self.authorizer, self.store, self.catalogue),
        ]
        if settings.check_all_budgets:
            plugins += [PdbRateHistory(), BudgetWarnings(self.store)]
        further = [*(make(self.store) for make in settings.store_plugins), *settings.plugins]
        for plugin in further:
            if isinstance(plugin, ClockedPlugin):
                plugin.use_clock(settings.clock.now)
        return [*plugins, *further, self.webhooks, self.policies]

    def _request_handler(self, *, old_streamed_lists: bool) -> RequestHandler:
        return RequestHandler(
            self.resource_store,
            self.nonresource_paths,
            self.authenticator,
            self.authorizer,
            subresources=self.subresources,
            access_reviews=AccessReviews(self.resource_store, self.authenticator, self.authorizer),
            patcher=self.patcher,
            aggregator=self.aggregator,
            old_streamed_lists=old_streamed_lists,
        )

    def _metrics(self) -> str:
        counts = {served.storage: self.store.count(served.prefix) for served in self.catalogue.stored_resources()}
        further = [sample for source in self._metric_sources for sample in source()]
        histograms = [series for source in self._histogram_sources for series in source()]
        flows = self.flow_control or self._own_flow_control
        if flows is not None:
            further += flows.metrics.samples(flows.queues)
            histograms += flows.metrics.histograms()
        return self.app.request_metrics.render(counts, self.app.watcher_count, self.store.revision, further, histograms)

    def _health_checks(self) -> dict[str, HealthCheck]:
        started = dict.fromkeys(("informer-sync", *_START_CHECKS), self._start_fault)
        return {"ping": lambda: "", "log": lambda: "", "etcd": self._store_fault, **started, "shutdown": lambda: ""}

    def _start_fault(self) -> str:
        return "" if self._is_started else "not finished"

    def _store_fault(self) -> str:
        """Why the store refuses writes; without paths, because everybody may read it."""
        if self.store.fault is None:
            return ""
        full = isinstance(self.store.fault, StorageFull)
        why = "its disk is full or fails" if full else "the server log says why"
        return f"the data directory cannot be written ({why}): reads work, writes are refused"

    async def start(self) -> None:
        """Write the bootstrap objects and CRDs, then start the background tasks; without room serve what there is."""
        self.store.retry_writes()
        if self._start_image and self.store.is_new:
            self.store.fill(self._start_image.entries(self._new_uid, self._timestamp()))
            self.crds.reconciled_revision = self.store.revision
        else:
            await self._create_objects()
        self._start_task(self.crds.run)
        self.aggregator.start()
        if self._has_flow_control_objects:
            try:
                await self.flow_control_objects.create()
            except StorageFailed:
                self._start_task(self.flow_control_objects.create)
            self._invalidate_flows()
            self._start_task(self.flow_control_objects.run)
        self._start_task(AdmissionPolicyStatus(self.resource_store).run)
        if self._counts_quota_objects:
            self._start_task(ObjectQuotaStatus(self.resource_store).run)
        if self._garbage_collection:
            self._start_task(GarbageCollector(self.resource_store, self._namespace_grace_seconds).run)
            self._start_task(EventExpiry(self.store, self.resource_store.clock).run)
        self._is_started = True

    async def _create_objects(self) -> None:
        """Create what is missing, and take the image of a new store for further servers."""
        is_new, began = self.store.is_new, self._timestamp()
        try:
            await self._create_missing_objects()
        except StorageFailed:  # the store has logged it
            self._start_task(self._create_missing_objects)
        self.crds.load()
        if self._start_image is not None and is_new:
            await self.crds.reconcile_all()
            if self._timestamp() == began:
                self._start_image.take(self.store, began)

    async def _create_missing_objects(self) -> None:
        is_new = not self.store.count(_ROLES_PREFIX)
        definitions = (_crd_of(kind, progress_columns=self._progress_columns) for kind in self._kinds_without_crd())
        await self.resource_store.create_missing(
            (*self._initial_objects(), *definitions, *self._api_services()),
            Caller(user_agent="kube-apiserver"),
        )
        if not is_new:
            await update_bootstrap_roles(self.resource_store, self._initial_objects())

    def _initial_objects(self) -> tuple[Raw, ...]:
        return (*_bootstrap_objects(), *(fleet_roles() if self._has_fleet_roles else ()))

    def _timestamp(self) -> str:
        return timestamp(self.resource_store.clock.now())

    def _api_services(self) -> Iterable[Raw]:
        return local_api_services(self.catalogue) if self._registers_api_services else ()

    def _kinds_without_crd(self) -> list[Kind]:
        """Custom kinds whose CRD is not in the store yet."""
        return [kind for kind in self._kinds if kind.custom and self.store.get(key_below(PREFIX, kind.id)) is None]

    def _start_task(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.get_running_loop().create_task(_run_to_its_end(run))
        task.add_done_callback(_log_task_failure)
        self._background_tasks.append(task)

    async def load(self, objects: Iterable[Raw]) -> list[Raw]:
        """Store objects as they are, with their uids and status and without admission; returns those of unknown kinds."""
        writes, unknown = [], []
        for raw in objects:
            served = self.catalogue.find_kind(raw["apiVersion"], raw["kind"])
            if served is None:
                unknown.append(raw)
                continue
            path = ObjectPath(served, raw["metadata"].get("namespace", ""), raw["metadata"]["name"])
            writes.append(PutKey(path.key, pack(served.to_stored(raw) if served.to_stored else raw)))
        if writes:
            await self.store.commit(writes)
        return unknown

    async def stop(self) -> None:
        await stop_tasks(self._background_tasks, log)
        await self.aggregator.stop()
        await self.store.close()


def _server_rules(check_condition: Callable[[str, bool], str]) -> dict[str, ValidateFunction]:
    """Validations that depend on what this server can evaluate, by kind id."""
    rules = rule_evaluator()
    # without the extra `cel` the rules of our own kinds are stored and not evaluated; else the server could not start
    own = () if rules else [kind.id for kind in kinds.values() if kind.custom]
    check_rule = (rules or NoExpressions()).check
    hooks = condition_validator(check_condition)
    policies = policy_validator(PolicyExpressions())
    return {
        CRD: schema_validator(check_rule, own),
        MUTATING_HOOKS: hooks,
        VALIDATING_HOOKS: hooks,
        ADMISSION_POLICIES: policies,
    }


def _is_computed(kind: Kind) -> bool:
    return kind.group == METRICS_GROUP or kind.type is ComponentStatus


def _is_served(kind: Kind, settings: ApiServerSettings) -> bool:
    if kind.group == FLOW_CONTROL_GROUP and settings.flow_control is None and not settings.flow_control_objects:
        return False  # its objects would configure nothing
    return settings.serves(kind) and (not _is_computed(kind) or kind.id in settings.computed)


def _log_task_failure(task: asyncio.Task[None]) -> None:
    """Log a background task that failed; tasks otherwise end only with the server."""
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, Unavailable):
        log.error("background task of the API server failed", exc_info=error)


async def _run_to_its_end(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a task again from a full list when its watch has expired, or later when the store refused a write."""
    while True:
        try:
            await run()
        except Expired:
            continue
        except StorageFailed:
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return


@cache
def served_resources_of(kind: Kind, *, progress_columns: bool = False) -> tuple[ServedResource, ...]:
    """The served resource of every version of a kind, shared by all servers of the process."""
    versions = (kind.version, *kind.other_versions)
    return tuple(_served_resource(kind, version, progress_columns=progress_columns) for version in versions)


def _served_resource(kind: Kind, version: str, *, progress_columns: bool) -> ServedResource:
    other = kind.other_versions.get(version, OtherVersion())
    if kind.id == "events.events.k8s.io":  # stored as v1 Events of the core group
        return ServedResource(
            kind, version, schema=dict, stored_as="events", from_stored=to_events_v1, to_stored=to_core
        )
    return ServedResource(
        kind,
        version,
        schema=lambda: schema_for(kind, version),
        from_stored=other.from_stored,
        to_stored=other.to_stored,
        deprecation_warning="v1 ComponentStatus is deprecated in v1.19+" if kind.type is ComponentStatus else "",
        progress_columns=progress_columns,
    )


@cache
def _load_kinds() -> None:
    """Import the declarations of all kinds, once for all servers of the process."""
    discover(kind_modules)


@cache
def _bootstrap_objects() -> tuple[Raw, ...]:
    """The initial objects; they must not be changed."""
    return tuple(bootstrap_objects())


@cache
def _crd_of(kind: Kind, *, progress_columns: bool) -> Raw:
    """The CRD of a custom kind, with every version served; it must not be changed."""
    definition = crd(kind, progress_columns=progress_columns)
    for version in definition["spec"]["versions"]:
        version["served"] = True
    return definition
