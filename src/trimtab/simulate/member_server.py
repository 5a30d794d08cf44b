"""The API server of a simulated member: what it serves, checks and keeps."""

import random
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, cast
from uuid import UUID

from trimtab.api.kind import Kind
from trimtab.api.kinds.native.admission_policy import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from trimtab.api.kinds.native.api_registration import ApiService
from trimtab.api.kinds.native.certificates import CertificateSigningRequest
from trimtab.api.profile import Profile
from trimtab.clock import Clock
from trimtab.server.admission.chain import AdmissionPlugin
from trimtab.server.admission.default_ingress_class import DefaultIngressClass
from trimtab.server.admission.default_storage_class import DefaultStorageClass
from trimtab.server.admission.member_budget_defaults import MemberBudgetDefaults
from trimtab.server.admission.object_quotas import ObjectQuotaCheck
from trimtab.server.admission.priority_quota import PriorityQuotaCheck
from trimtab.server.admission.service_accounts import ServiceAccountAdmission
from trimtab.server.admission.storage_protection import StorageProtection
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.certificates import write_secret
from trimtab.server.background.start_image import StartImage
from trimtab.server.flowcontrol.controller import FlowController
from trimtab.server.registry.object_reader import ComputedObjects
from trimtab.server.storage.formats import open_store
from trimtab.server.subresources.pod_runtime import PodRuntime
from trimtab.store.index import Retention
from trimtab.store.store import Store

RETENTION = Retention(revisions=4_000, seconds=60.0, superseded_bytes=1024 * 1024, cached_events=32)
"""A fleet in one process cannot afford a long history per member."""
RETENTION_ON_DISK = Retention(seconds=300.0)
"""Five minutes, as kube-apiserver keeps at least; a client that waits ten for an expired version gets it."""
KINDS_OF_WHOLE_CLUSTERS = (
    ApiService,
    CertificateSigningRequest,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)


class MemberEnvironment(NamedTuple):
    """What all members of a world share."""

    clock: Clock
    profile: Profile
    rng: random.Random
    """One generator per member."""
    directory: Path | None = None
    """Directory of the members' data; None keeps it in memory."""
    whole_clusters: bool = False
    """Whether members have what every cluster has besides workloads: accounts, tokens, endpoints, volumes."""
    flow_control: FlowController | None = None
    """That of the control plane: one caller has the same share of the process, whichever API server it calls."""
    disabled_plugins: frozenset[str] = frozenset()
    """Admission plugins that the API servers leave out."""
    start_image: StartImage | None = None
    """What the API servers of members of this sort start with."""
    anonymous_auth: bool = True
    old_streamed_lists: bool = False


def memory_server(
    environment: MemberEnvironment, computed: Mapping[str, ComputedObjects], runtime: PodRuntime
) -> ApiServer:
    """An API server without persistence; uids and keys come from the seed, so runs are repeatable."""
    new_uid, key = seeded_uids(environment.rng), environment.rng.randbytes(32)
    settings = _settings(environment, key, computed, runtime)
    return ApiServer(Store(RETENTION), settings._replace(new_uid=new_uid, start_image=environment.start_image))


def disk_server(
    environment: MemberEnvironment, name: str, computed: Mapping[str, ComputedObjects], runtime: PodRuntime
) -> ApiServer:
    """An API server that survives restarts: uids are random, so that none repeats, and the token key is stored."""
    directory = cast("Path", environment.directory) / name
    store = open_store(directory, RETENTION_ON_DISK)
    key = directory / "service-account.key"
    if not key.exists():
        write_secret(key, secrets.token_hex(32).encode())
    settings = _settings(environment, key.read_bytes(), computed, runtime)
    front_proxy = directory / "pki" / "front-proxy" if environment.whole_clusters else None
    return ApiServer(store, settings._replace(front_proxy=front_proxy))


def _settings(
    environment: MemberEnvironment, token_key: bytes, computed: Mapping[str, ComputedObjects], runtime: PodRuntime
) -> ApiServerSettings:
    return ApiServerSettings(
        clock=environment.clock,
        token_key=token_key,
        serves=is_served_by_whole_cluster if environment.whole_clusters else is_served_by_member,
        check_all_budgets=environment.profile.all_budgets_must_allow,
        runtime=runtime,
        api_services=environment.whole_clusters,
        object_quota_status=environment.whole_clusters,
        flow_control_objects=environment.whole_clusters,
        plugins=(MemberBudgetDefaults(),),
        store_plugins=_store_plugins(environment),
        default_tolerations="DefaultTolerationSeconds" not in environment.disabled_plugins,
        anonymous_auth=environment.anonymous_auth,
        old_streamed_lists=environment.old_streamed_lists,
        computed=computed,
        shared_flow_control=environment.flow_control,
    )


def _store_plugins(environment: MemberEnvironment) -> tuple[Callable[[Store], AdmissionPlugin], ...]:
    if not environment.whole_clusters:
        return (PriorityQuotaCheck,)
    of_whole_clusters: dict[str, Callable[[Store], AdmissionPlugin]] = {
        "ServiceAccount": ServiceAccountAdmission,
        "DefaultStorageClass": DefaultStorageClass,
        "DefaultIngressClass": DefaultIngressClass,
        "StorageObjectInUseProtection": StorageProtection,
    }
    enabled = (plugin for name, plugin in of_whole_clusters.items() if name not in environment.disabled_plugins)
    return (*enabled, PriorityQuotaCheck, ObjectQuotaCheck)


def is_served_by_whole_cluster(kind: Kind) -> bool:
    """Whether a member cluster serves this kind: those of Kubernetes, and ours that apply inside one cluster."""
    return kind.type.__module__.startswith("trimtab.api.kinds.native.") or kind.group == "trimtab.dev"


def is_served_by_member(kind: Kind) -> bool:
    """The same for a member without the further parts of a whole cluster."""
    return is_served_by_whole_cluster(kind) and kind.type not in KINDS_OF_WHOLE_CLUSTERS


def seeded_uids(rng: random.Random) -> Callable[[], str]:
    return lambda: str(UUID(bytes=rng.randbytes(16), version=4))
