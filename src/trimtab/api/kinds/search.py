"""What of the clusters' objects is kept here for searching."""

from typing import Annotated

from trimtab.api.kind import kind
from trimtab.api.kinds.cluster import LocalSecretReference
from trimtab.api.kinds.policy import ClusterAffinity
from trimtab.api.value import Condition, Field, Object, Value, always


class SearchSelector(Value):
    api_version: Annotated[str, Field("Group and version of the objects.", required=True)] = always("")
    kind: Annotated[str, Field("Kind of the objects.", required=True)] = always("")
    namespace: Annotated[str, Field("Their namespace; empty means every one.")] = ""


class OpenSearchConfig(Value):
    addresses: Annotated[tuple[str, ...], Field("Where the store is.", required=True)] = always(())
    secret_ref: Annotated[LocalSecretReference, Field("Who we are there.", required=True)] = always(
        LocalSecretReference()
    )


class BackendStore(Value):
    open_search: Annotated[OpenSearchConfig | None, Field("An OpenSearch store.")] = None


class ResourceRegistrySpec(Value):
    target_cluster: Annotated[ClusterAffinity, Field("Of which clusters.", required=True)] = always(ClusterAffinity())
    resource_selectors: Annotated[tuple[SearchSelector, ...], Field("Which objects.", required=True)] = always(())
    backend_store: Annotated[BackendStore | None, Field("Where they are kept; absent means in memory.")] = None


class ResourceRegistryStatus(Value):
    conditions: Annotated[tuple[Condition, ...], Field("What was observed.")] = ()


@kind(
    group="search.karmada.io",
    version="v1alpha1",
    plural="resourceregistries",
    namespaced=False,
    status=True,
    text="Says which objects of which clusters are kept for searching.",
)
class ResourceRegistry(Object):
    spec: Annotated[ResourceRegistrySpec, Field("Which objects.")] = ResourceRegistrySpec()
    status: Annotated[ResourceRegistryStatus, Field("How it stands.")] = ResourceRegistryStatus()
