"""Maintains the claims of propagation policies: releases templates no longer selected and preempts other policies."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of
from trimtab.api.kinds.policy import ClusterPropagationPolicy, Policy, PropagationPolicy
from trimtab.api.kinds.work import ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import (
    Effect,
    Ensure,
    RecordEvent,
    Ref,
    RequeueAfter,
    Trigger,
    View,
    controller,
    spec_changed,
)
from trimtab.controllers.finalizers import with_finalizer, without_finalizers
from trimtab.controllers.propagation.claim_metadata import (
    NO_CLAIM_LABELS,
    binding_without_claim,
    claiming_policy,
    release_claim,
    template_without_claim,
    with_claim,
)
from trimtab.controllers.propagation.detect import SOURCE
from trimtab.controllers.propagation.policy_matching import places_of, specificity_of
from trimtab.controllers.settings import setting


def preempting_policies(old: Policy | None, new: Policy | None, view: View) -> Iterable[Key]:
    """The priority of a policy was lowered: the policies that may now preempt it, highest priority first."""
    if old is None or new is None or (new.spec.priority or 0) >= (old.spec.priority or 0):
        return
    low, high = new.spec.priority or 0, old.spec.priority or 0
    rivals: list[Policy] = [
        *(view.all(PropagationPolicy, new.namespace) if new.namespace else view.all(ClusterPropagationPolicy))
    ]
    between = [p for p in rivals if p.spec.preemption == "Always" and low < (p.spec.priority or 0) < high]
    for policy in sorted(between, key=lambda p: (-(p.spec.priority or 0), p.name)):
        yield key_of(policy)


def deleted_policies_of_binding(
    old: ResourceBinding | ClusterResourceBinding | None,
    new: ResourceBinding | ClusterResourceBinding | None,
    view: View,
) -> Iterable[Key]:
    """A policy that is being deleted waits until no binding carries its id."""
    if old is None:
        return
    removed = set(well_known.policy_ids_of_binding(old)) - set(
        well_known.policy_ids_of_binding(new) if new is not None else ()
    )
    if not removed:
        return  # the usual case; the loop below is expensive with many policies
    for policy in (*view.all(PropagationPolicy, old.namespace or None), *view.all(ClusterPropagationPolicy)):
        if policy.metadata.deletion_timestamp is not None and well_known.policy_id(policy) in removed:
            yield key_of(policy)


@controller(
    PropagationPolicy,
    ClusterPropagationPolicy,
    writes=[
        f"metadata.finalizers[{well_known.POLICY_FINALIZER}]",
        f"metadata.finalizers[{well_known.CLUSTER_POLICY_FINALIZER}]",
        f"metadata.labels[{well_known.PP_ID}]",
        f"metadata.labels[{well_known.CPP_ID}]",
        "ResourceBinding.metadata",
        "ClusterResourceBinding.metadata",
    ],
    predicate=spec_changed,
    triggers=[
        Trigger(PropagationPolicy, preempting_policies),
        Trigger(ClusterPropagationPolicy, preempting_policies),
        Trigger(ResourceBinding, deleted_policies_of_binding),
        Trigger(ClusterResourceBinding, deleted_policies_of_binding),
    ],
    resumes=True,
)
def policy_claims(policy: Policy, view: View) -> Iterator[Effect]:
    if policy.metadata.deletion_timestamp is not None:
        yield from finalize(policy, view)
        return
    wanted = with_id_and_finalizer(policy)
    if wanted != policy:
        yield wanted
        return
    yield from release_unselected(policy, view)
    if policy.spec.preemption == "Always" and setting(view, "policy-preemption"):
        yield from preempt_claims(policy, view)


def with_id_and_finalizer(policy: Policy) -> Policy:
    """The policy with the permanent id and the finalizer that an admission webhook would have added."""
    namespaced = isinstance(policy, PropagationPolicy)
    finalizer = well_known.POLICY_FINALIZER if namespaced else well_known.CLUSTER_POLICY_FINALIZER
    labels = policy.metadata.labels | {well_known.policy_id_label(policy): well_known.policy_id(policy)}
    return with_finalizer(policy.but(metadata=policy.metadata.but(labels=labels)), finalizer)


def release_unselected(policy: Policy, view: View) -> Iterator[Effect]:
    """Remove the claim from templates that the policy no longer selects, and then from their bindings.

    The binding comes last, because the templates are found by their bindings: after a conflict the rest is still found.
    """
    for binding in well_known.bindings_of_policy(view, well_known.policy_id(policy)):
        template = view.raw(well_known.template_ref(binding))
        if template is None or specificity_of(policy, template):
            continue
        if is_claimed_by(template, policy):
            yield template_without_claim(template)
        elif any(well_known.labels_of(template).get(label) for label in NO_CLAIM_LABELS):
            continue  # another policy claimed it meanwhile
        yield binding_without_claim(binding)


def is_claimed_by(template: Raw, policy: Policy) -> bool:
    return well_known.labels_of(template).get(well_known.policy_id_label(policy)) == well_known.policy_id(policy)


def finalize(policy: Policy, view: View) -> Iterator[Effect]:
    """Release every claimed template and then remove the finalizer; running workloads are kept."""
    has_claims = False
    for place in dict.fromkeys(places_of(policy)):
        for template in view.raws(*place):
            if is_claimed_by(template, policy):
                has_claims = True
                yield from release_claim(template, view)
    if has_claims:
        yield RequeueAfter(0.5)
        return
    yield without_finalizers(policy, well_known.POLICY_FINALIZER, well_known.CLUSTER_POLICY_FINALIZER)


def preempt_claims(policy: Policy, view: View) -> Iterator[Effect]:
    """Claim the templates that this policy selects by name and that a policy of lower rank has claimed."""
    for selector in policy.spec.resource_selectors:
        if not selector.name:
            continue
        namespace = policy.namespace or selector.namespace
        template = view.raw(Ref(selector.api_version, selector.kind, namespace, selector.name))
        if template is None or is_claimed_by(template, policy):
            continue
        other, _ = claiming_policy(template, view)
        if other is not None and outranks(policy, other):
            yield Ensure(with_claim(template, policy), seen=template)
            yield RecordEvent(
                well_known.ref_of_raw(template),
                "PreemptPolicySucceed",
                f"Policy({well_known.qualified_name(policy)}) preempted "
                f"policy({well_known.qualified_name(other)}) successfully",
                SOURCE,
            )


def outranks(policy: Policy, other: Policy) -> bool:
    namespaced = isinstance(policy, PropagationPolicy)
    if namespaced != isinstance(other, PropagationPolicy):
        return namespaced  # a namespaced policy outranks any cluster-wide one, whatever their priorities
    return (policy.spec.priority or 0) > (other.spec.priority or 0)
