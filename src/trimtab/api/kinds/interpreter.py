"""Customizations of Karmada's resource interpreter: Lua scripts and webhooks that interpret further kinds."""

from typing import Annotated

from trimtab.api.admission.interpreter import check_customization, check_webhooks, fill_webhooks, gather_customizations
from trimtab.api.kind import Column, kind
from trimtab.api.value import Condition, Field, Int32, Object, Value, never_omit


class CustomizationTarget(Value):
    api_version: Annotated[str, Field("Group and version of the kind.", required=True)] = never_omit("")
    kind: Annotated[str, Field("The kind.", required=True)] = never_omit("")


class LuaOperation(Value):
    lua_script: Annotated[
        str, Field("The script; it defines the function that the operation calls.", required=True)
    ] = never_omit("")


class CustomizationRules(Value):
    """One script per interpreter operation."""

    retention: Annotated[LuaOperation | None, Field("Retains fields of the object in a member cluster.")] = None
    replica_resource: Annotated[
        LuaOperation | None, Field("Returns the replicas and the requirements of one replica.")
    ] = None
    component_resource: Annotated[
        LuaOperation | None, Field("Returns the components and the requirements of each.")
    ] = None
    replica_revision: Annotated[LuaOperation | None, Field("Sets the number of replicas.")] = None
    status_reflection: Annotated[LuaOperation | None, Field("Extracts the part of the status that is reported.")] = None
    status_aggregation: Annotated[
        LuaOperation | None, Field("Merges the statuses of the member clusters into one.")
    ] = None
    health_interpretation: Annotated[LuaOperation | None, Field("Returns whether the object is healthy.")] = None
    dependency_interpretation: Annotated[
        LuaOperation | None, Field("Returns the objects that the object depends on.")
    ] = None


class CustomizationSpec(CustomizationRules):
    """The scripts may also be given directly in the spec; they are moved to `customizations`."""

    target: Annotated[CustomizationTarget, Field("The kind to interpret.", required=True)] = never_omit(
        CustomizationTarget()
    )
    customizations: Annotated[CustomizationRules, Field("The scripts.")] = never_omit(CustomizationRules())


class CustomizationStatus(Value):
    """No observedGeneration: the kind has no status subresource, so a status write increments the generation."""

    conditions: Annotated[
        tuple[Condition, ...], Field("Whether the scripts are valid.", list_type="map", map_keys=("type",))
    ] = ()


@kind(
    group="config.karmada.io",
    version="v1alpha1",
    plural="resourceinterpretercustomizations",
    short=("ric",),
    categories=("karmada-io",),
    namespaced=False,
    columns=(
        Column("TARGET-API-VERSION", ".spec.target.apiVersion"),
        Column("TARGET-KIND", ".spec.target.kind"),
        Column("AGE", ".metadata.creationTimestamp", "date"),
    ),
    normalizers=(gather_customizations,),
    validators=(check_customization,),
    text="Interprets a kind with Lua scripts.",
)
class ResourceInterpreterCustomization(Object):
    spec: Annotated[CustomizationSpec, Field("The kind and its scripts.", required=True)] = never_omit(
        CustomizationSpec()
    )
    status: Annotated[CustomizationStatus, Field("Whether the scripts are valid.")] = CustomizationStatus()


class WebhookService(Value):
    namespace: Annotated[str, Field("The namespace of the service.", required=True)] = never_omit("")
    name: Annotated[str, Field("The name of the service.", required=True)] = never_omit("")
    path: Annotated[str, Field("The URL path of the webhook.")] = ""
    port: Annotated[Int32 | None, Field("The port of the service; 443 when absent.")] = None


class WebhookClientConfig(Value):
    url: Annotated[str, Field("The URL of a webhook outside the cluster.")] = ""
    service: Annotated[WebhookService | None, Field("The service of a webhook inside the cluster.")] = None
    ca_bundle: Annotated[str, Field("The certificate authority of the server.", format="byte")] = ""


class RuleWithOperations(Value):
    operations: Annotated[tuple[str, ...], Field("The interpreter operations.", required=True)] = never_omit(())
    api_groups: Annotated[tuple[str, ...], Field("The API groups.", required=True)] = never_omit(())
    api_versions: Annotated[tuple[str, ...], Field("The API versions.", required=True)] = never_omit(())
    kinds: Annotated[tuple[str, ...], Field("The kinds.", required=True)] = never_omit(())


class InterpreterWebhook(Value):
    name: Annotated[str, Field("The full name of the webhook.", required=True)] = never_omit("")
    client_config: Annotated[WebhookClientConfig, Field("How to reach the webhook.", required=True)] = never_omit(
        WebhookClientConfig()
    )
    rules: Annotated[tuple[RuleWithOperations, ...], Field("The operations and kinds that the webhook handles.")] = ()
    timeout_seconds: Annotated[Int32 | None, Field("The timeout of a call.")] = None
    interpreter_context_versions: Annotated[
        tuple[str, ...], Field("The versions of the request that the webhook supports.", required=True)
    ] = never_omit(())


@kind(
    group="config.karmada.io",
    version="v1alpha1",
    plural="resourceinterpreterwebhookconfigurations",
    categories=("karmada-io",),
    namespaced=False,
    admission_defaults=(fill_webhooks,),
    admission_validators=(check_webhooks,),
    text="Interprets kinds with webhooks.",
)
class ResourceInterpreterWebhookConfiguration(Object):
    webhooks: Annotated[tuple[InterpreterWebhook, ...], Field("The webhooks.", required=True)] = never_omit(())
