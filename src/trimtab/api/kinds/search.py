"""Karmada's ResourceRegistry: which objects of member clusters are cached for search."""

from typing import Annotated

from trimtab.api.kind import kind
from trimtab.api.kinds.cluster import LocalSecretReference
from trimtab.api.kinds.policy import ClusterAffinity
from trimtab.api.value import Condition, Field, Object, Value, never_omit


class SearchSelector(Value):
    api_version: Annotated[str, Field("Group and version of the objects.", required=True)] = never_omit("")
    kind: Annotated[str, Field("Kind of the objects.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Their namespace; empty means every namespace.")] = ""


class OpenSearchConfig(Value):
    addresses: Annotated[tuple[str, ...], Field("The addresses of the store.", required=True)] = never_omit(())
    secret_ref: Annotated[LocalSecretReference, Field("The secret with the credentials.", required=True)] = never_omit(
        LocalSecretReference()
    )


class BackendStore(Value):
    open_search: Annotated[OpenSearchConfig | None, Field("An OpenSearch store.")] = None


class ResourceRegistrySpec(Value):
    target_cluster: Annotated[ClusterAffinity, Field("The clusters whose objects are cached.", required=True)] = (
        never_omit(ClusterAffinity())
    )
    resource_selectors: Annotated[tuple[SearchSelector, ...], Field("The objects to cache.", required=True)] = (
        never_omit(())
    )
    backend_store: Annotated[BackendStore | None, Field("The backend store; absent means in memory.")] = None


class ResourceRegistryStatus(Value):
    conditions: Annotated[tuple[Condition, ...], Field("Conditions of the registry.")] = ()


@kind(
    group="search.karmada.io",
    version="v1alpha1",
    plural="resourceregistries",
    namespaced=False,
    status=True,
    text="Declares which objects of which clusters are cached for search.",
)
class ResourceRegistry(Object):
    spec: Annotated[ResourceRegistrySpec, Field("The objects to cache.")] = ResourceRegistrySpec()
    status: Annotated[ResourceRegistryStatus, Field("Conditions of the registry.")] = ResourceRegistryStatus()
