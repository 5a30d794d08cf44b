"""The labels and annotations by which a policy claims a template and its binding."""

from collections.abc import Iterator

from trimtab.api.kinds.policy import ClusterPropagationPolicy, Policy, PropagationPolicy
from trimtab.api.kinds.work import Binding
from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Effect, Ensure, View
from trimtab.interpret.names import binding_name


def claiming_policy(template: Raw, view: View) -> tuple[Policy | None, bool]:
    """The policy that has claimed this template, and whether the claim refers to a policy that does not exist."""
    labels, annotations = well_known.labels_of(template), well_known.annotations_of(template)
    if well_known.PP_ID in labels and well_known.PP_NAME in annotations and well_known.PP_NAMESPACE in annotations:
        found: Policy | None = view.get(
            PropagationPolicy, annotations[well_known.PP_NAMESPACE], annotations[well_known.PP_NAME]
        )
        return found, found is None
    if well_known.CPP_ID in labels and well_known.CPP_NAME in annotations:
        found = view.get(ClusterPropagationPolicy, "", annotations[well_known.CPP_NAME])
        return found, found is None
    return None, False


def claim_metadata(policy: Policy) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """The labels and annotations of a claim; a namespaced claim removes those of a cluster-wide one."""
    if isinstance(policy, PropagationPolicy):
        labels: dict[str, str | None] = {well_known.PP_ID: well_known.policy_id(policy), well_known.CPP_ID: None}
        return labels, {
            well_known.PP_NAMESPACE: policy.namespace,
            well_known.PP_NAME: policy.name,
            well_known.CPP_NAME: None,
        }
    return {well_known.CPP_ID: well_known.policy_id(policy)}, {well_known.CPP_NAME: policy.name}


NO_CLAIM_LABELS: dict[str, str | None] = dict.fromkeys(well_known.POLICY_ID_LABELS)
NO_CLAIM_ANNOTATIONS: dict[str, str | None] = {
    well_known.PP_NAMESPACE: None,
    well_known.PP_NAME: None,
    well_known.CPP_NAME: None,
}


def with_claim(template: Raw, policy: Policy) -> Raw:
    labels, annotations = claim_metadata(policy)
    return well_known.with_metadata(template, labels=labels, annotations=annotations)


def release_claim(template: Raw, view: View) -> Iterator[Effect]:
    """Remove the claim, from the binding first and then from the template; running workloads are kept."""
    metadata = template["metadata"]
    binding = well_known.binding_at(
        view, metadata.get("namespace", ""), binding_name(template["kind"], metadata["name"])
    )
    if binding is not None:
        yield binding_without_claim(binding)
    yield template_without_claim(template)


def template_without_claim(template: Raw) -> Ensure:
    released = well_known.with_metadata(template, labels=NO_CLAIM_LABELS, annotations=NO_CLAIM_ANNOTATIONS)
    return Ensure(released, seen=template)


def binding_without_claim(binding: Binding) -> Binding:
    return binding.but(
        metadata=binding.metadata.but(
            labels=well_known.with_changes(binding.metadata.labels, NO_CLAIM_LABELS),
            annotations=well_known.with_changes(binding.metadata.annotations, NO_CLAIM_ANNOTATIONS),
        )
    )
