"""Karmada's override policies: how objects differ from cluster to cluster."""

from typing import Annotated, Any

from trimtab.api.admission.override import check_override, fill_override
from trimtab.api.admission.propagation import check_selector_namespaces, default_selector_namespaces
from trimtab.api.kind import kind
from trimtab.api.kinds.policy import ClusterAffinity, ResourceSelector
from trimtab.api.value import Field, Object, Value, never_omit


class PlaintextOverrider(Value):
    path: Annotated[str, Field("The path in the object, as a JSON pointer.", required=True)] = never_omit("")
    operator: Annotated[str, Field("The operation.", required=True, enum=("add", "remove", "replace"))] = never_omit("")
    value: Annotated[Any, Field("The value to set.", preserve_unknown=True)] = None


class ImagePredicate(Value):
    path: Annotated[str, Field("The path of the image, as a JSON pointer.", required=True)] = never_omit("")


class ImageOverrider(Value):
    predicate: Annotated[ImagePredicate | None, Field("The image; absent means all images of the workload.")] = None
    component: Annotated[
        str, Field("The part of the image name.", required=True, enum=("Registry", "Repository", "Tag"))
    ] = never_omit("")
    operator: Annotated[str, Field("The operation.", required=True, enum=("add", "remove", "replace"))] = never_omit("")
    value: Annotated[str, Field("The value of the part.")] = ""


class CommandArgsOverrider(Value):
    container_name: Annotated[str, Field("The container.", required=True)] = never_omit("")
    operator: Annotated[str, Field("The operation.", required=True, enum=("add", "remove"))] = never_omit("")
    value: Annotated[tuple[str, ...], Field("The commands or arguments.")] = ()


class LabelAnnotationOverrider(Value):
    operator: Annotated[str, Field("The operation.", required=True, enum=("add", "remove", "replace"))] = never_omit("")
    value: Annotated[dict[str, str], Field("The labels or annotations.", required=True)] = never_omit({})


class FieldPatchOperation(Value):
    sub_path: Annotated[str, Field("The path in the document, as a JSON pointer.", required=True)] = never_omit("")
    operator: Annotated[str, Field("The operation.", required=True, enum=("add", "remove", "replace"))] = never_omit("")
    value: Annotated[Any, Field("The value to set.", preserve_unknown=True)] = None


class FieldOverrider(Value):
    field_path: Annotated[
        str, Field("The string field that contains a document, as a JSON pointer.", required=True)
    ] = never_omit("")
    json: Annotated[tuple[FieldPatchOperation, ...], Field("Changes to a JSON document.")] = ()
    yaml: Annotated[tuple[FieldPatchOperation, ...], Field("Changes to a YAML document.")] = ()


class Overriders(Value):
    """Overrides for a cluster; the types are applied in this order."""

    plaintext: Annotated[tuple[PlaintextOverrider, ...], Field("Overrides by JSON patch.")] = ()
    image_overrider: Annotated[tuple[ImageOverrider, ...], Field("Overrides of image names.")] = ()
    command_overrider: Annotated[tuple[CommandArgsOverrider, ...], Field("Overrides of container commands.")] = ()
    args_overrider: Annotated[tuple[CommandArgsOverrider, ...], Field("Overrides of container arguments.")] = ()
    labels_overrider: Annotated[tuple[LabelAnnotationOverrider, ...], Field("Overrides of labels.")] = ()
    annotations_overrider: Annotated[tuple[LabelAnnotationOverrider, ...], Field("Overrides of annotations.")] = ()
    field_overrider: Annotated[
        tuple[FieldOverrider, ...], Field("Overrides in documents that a string field contains.")
    ] = ()


class RuleWithCluster(Value):
    target_cluster: Annotated[ClusterAffinity | None, Field("The clusters; absent means all.")] = None
    overriders: Annotated[Overriders, Field("The overrides.", required=True)] = never_omit(Overriders())


class OverrideSpec(Value):
    resource_selectors: Annotated[tuple[ResourceSelector, ...], Field("The objects to override; empty means all.")] = ()
    override_rules: Annotated[tuple[RuleWithCluster, ...], Field("The overrides by cluster, in order.")] = ()
    target_cluster: Annotated[
        ClusterAffinity | None, Field("Deprecated: the clusters of a single rule; use overrideRules.")
    ] = None
    overriders: Annotated[Overriders, Field("Deprecated: the overrides of a single rule; use overrideRules.")] = (
        Overriders()
    )


class Override(Object):
    """The common type of both override policy kinds; the cluster-wide one has no namespace."""

    spec: Annotated[OverrideSpec, Field("The objects and their overrides.", required=True)] = never_omit(OverrideSpec())


@kind(
    group="policy.karmada.io",
    version="v1alpha1",
    plural="overridepolicies",
    short=("op",),
    categories=("karmada-io",),
    admission_defaults=(default_selector_namespaces, fill_override),
    admission_validators=(check_selector_namespaces, check_override),
    text="Overrides objects of its namespace per cluster.",
)
class OverridePolicy(Override):
    pass


@kind(
    group="policy.karmada.io",
    version="v1alpha1",
    plural="clusteroverridepolicies",
    short=("cop",),
    categories=("karmada-io",),
    namespaced=False,
    admission_defaults=(fill_override,),
    admission_validators=(check_override,),
    text="Overrides cluster-wide objects and objects of any namespace per cluster.",
)
class ClusterOverridePolicy(Override):
    pass
