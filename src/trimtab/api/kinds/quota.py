"""Karmada's FederatedResourceQuota: limits of a namespace over all clusters."""

from typing import Annotated

from trimtab.api.admission.quota import check_quota
from trimtab.api.kind import Column, kind
from trimtab.api.value import Field, Object, QuantityText, Value, never_omit


class StaticClusterAssignment(Value):
    cluster_name: Annotated[str, Field("The cluster.", required=True)] = never_omit("")
    hard: Annotated[dict[str, QuantityText], Field("The quota of the cluster.", required=True)] = never_omit({})


class FederatedResourceQuotaSpec(Value):
    overall: Annotated[
        dict[str, QuantityText], Field("The quota of the namespace over all clusters.", required=True)
    ] = never_omit({})
    static_assignments: Annotated[tuple[StaticClusterAssignment, ...], Field("The quotas of single clusters.")] = ()


class ClusterQuotaStatus(Value):
    cluster_name: Annotated[str, Field("The cluster.", required=True)] = never_omit("")
    hard: Annotated[dict[str, QuantityText], Field("The quota of the cluster.")] = {}
    used: Annotated[dict[str, QuantityText], Field("The used resources in the cluster.")] = {}


class FederatedResourceQuotaStatus(Value):
    overall: Annotated[dict[str, QuantityText], Field("The quota over all clusters.")] = {}
    overall_used: Annotated[dict[str, QuantityText], Field("The used resources over all clusters.")] = {}
    aggregated_status: Annotated[tuple[ClusterQuotaStatus, ...], Field("Quota and use per cluster.")] = ()


@kind(
    group="policy.karmada.io",
    version="v1alpha1",
    plural="federatedresourcequotas",
    categories=("karmada-io",),
    status=True,
    columns=(Column("OVERALL", ".status.overall"), Column("OVERALL_USED", ".status.overallUsed")),
    admission_validators=(check_quota,),
    text="Limits the resources of a namespace over all clusters.",
)
class FederatedResourceQuota(Object):
    spec: Annotated[FederatedResourceQuotaSpec, Field("The limits.", required=True)] = never_omit(
        FederatedResourceQuotaSpec()
    )
    status: Annotated[FederatedResourceQuotaStatus, Field("The used resources.")] = FederatedResourceQuotaStatus()
