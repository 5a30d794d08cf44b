"""How kinds that we do not know by heart are understood: by Lua scripts, or by asking a webhook."""

from typing import Annotated

from trimtab.api.admission.interpreter import check_customization, check_webhooks, fill_webhooks, gather_customizations
from trimtab.api.kind import Column, kind
from trimtab.api.value import Condition, Field, Int32, Object, Value, always


class CustomizationTarget(Value):
    api_version: Annotated[str, Field("Group and version of the kind.", required=True)] = always("")
    kind: Annotated[str, Field("The kind.", required=True)] = always("")


class LuaOperation(Value):
    lua_script: Annotated[str, Field("The script; it defines the function of its operation.", required=True)] = always(
        ""
    )


class CustomizationRules(Value):
    """One script for each question about the kind."""

    retention: Annotated[LuaOperation | None, Field("Which fields of the copy in a cluster are kept.")] = None
    replica_resource: Annotated[LuaOperation | None, Field("How many replicas there are and what one needs.")] = None
    component_resource: Annotated[LuaOperation | None, Field("Which components there are and what each needs.")] = None
    replica_revision: Annotated[LuaOperation | None, Field("How the number of replicas is changed.")] = None
    status_reflection: Annotated[LuaOperation | None, Field("Which part of the status is reported.")] = None
    status_aggregation: Annotated[LuaOperation | None, Field("How the clusters' statuses become one.")] = None
    health_interpretation: Annotated[LuaOperation | None, Field("Whether the copy does well.")] = None
    dependency_interpretation: Annotated[LuaOperation | None, Field("What the object needs beside it.")] = None


class CustomizationSpec(CustomizationRules):
    """The scripts may also stand here directly; they are moved into `customizations`."""

    target: Annotated[CustomizationTarget, Field("The kind that is explained.", required=True)] = always(
        CustomizationTarget()
    )
    customizations: Annotated[CustomizationRules, Field("The scripts.")] = always(CustomizationRules())


class CustomizationStatus(Value):
    """Without observedGeneration: the kind has no status subresource, so writing this is itself a new generation."""

    conditions: Annotated[
        tuple[Condition, ...], Field("Whether the scripts work.", list_type="map", map_keys=("type",))
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
    spelling=(gather_customizations,),
    validators=(check_customization,),
    text="Explains a kind by Lua scripts.",
)
class ResourceInterpreterCustomization(Object):
    spec: Annotated[CustomizationSpec, Field("Which kind, which scripts.", required=True)] = always(CustomizationSpec())
    status: Annotated[CustomizationStatus, Field("Whether the scripts work.")] = CustomizationStatus()


class WebhookService(Value):
    namespace: Annotated[str, Field("The namespace of the service.", required=True)] = always("")
    name: Annotated[str, Field("The name of the service.", required=True)] = always("")
    path: Annotated[str, Field("The path to ask.")] = ""
    port: Annotated[Int32 | None, Field("The port to ask; 443 when absent.")] = None


class WebhookClientConfig(Value):
    url: Annotated[str, Field("The address, when it is outside.")] = ""
    service: Annotated[WebhookService | None, Field("The service, when it is inside.")] = None
    ca_bundle: Annotated[str, Field("The certificate authority of the server.", format="byte")] = ""


class RuleWithOperations(Value):
    operations: Annotated[tuple[str, ...], Field("Which questions.", required=True)] = always(())
    api_groups: Annotated[tuple[str, ...], Field("Of which groups.", required=True)] = always(())
    api_versions: Annotated[tuple[str, ...], Field("Of which versions.", required=True)] = always(())
    kinds: Annotated[tuple[str, ...], Field("Of which kinds.", required=True)] = always(())


class InterpreterWebhook(Value):
    name: Annotated[str, Field("The full name of the webhook.", required=True)] = always("")
    client_config: Annotated[WebhookClientConfig, Field("How it is reached.", required=True)] = always(
        WebhookClientConfig()
    )
    rules: Annotated[tuple[RuleWithOperations, ...], Field("What it is asked about.")] = ()
    timeout_seconds: Annotated[Int32 | None, Field("How long to wait for an answer.")] = None
    interpreter_context_versions: Annotated[
        tuple[str, ...], Field("Which versions of the question it understands.", required=True)
    ] = always(())


@kind(
    group="config.karmada.io",
    version="v1alpha1",
    plural="resourceinterpreterwebhookconfigurations",
    categories=("karmada-io",),
    namespaced=False,
    admission_defaults=(fill_webhooks,),
    admission_validators=(check_webhooks,),
    text="Explains kinds by asking a webhook.",
)
class ResourceInterpreterWebhookConfiguration(Object):
    webhooks: Annotated[tuple[InterpreterWebhook, ...], Field("The webhooks.", required=True)] = always(())
