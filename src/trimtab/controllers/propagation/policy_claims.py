"""Policies look after their claims: they let go of what they no longer mean, and take over what is theirs by rank."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of
from trimtab.api.kinds.policy import ClusterPropagationPolicy, Policy, PropagationPolicy
from trimtab.api.kinds.work import ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Make, Note, Ref, View, Wake, Wish, controller, spec_changed
from trimtab.controllers.propagation.detect import SOURCE, claimant, claimed, selectors_of, unclaimed
from trimtab.interpret.match import policy_priority


def overtaken_policies(old: Policy | None, new: Policy | None, view: View) -> Iterable[Key]:
    """A policy whose priority fell may now be overtaken by those in between, the highest first."""
    if old is None or new is None or (new.spec.priority or 0) >= (old.spec.priority or 0):
        return
    low, high = new.spec.priority or 0, old.spec.priority or 0
    rivals: list[Policy] = [
        *(view.all(PropagationPolicy, new.namespace) if new.namespace else view.all(ClusterPropagationPolicy))
    ]
    between = [p for p in rivals if p.spec.preemption == "Always" and low < (p.spec.priority or 0) < high]
    for policy in sorted(between, key=lambda p: (-(p.spec.priority or 0), p.name)):
        yield key_of(policy)


def policy_of_lost_binding(
    old: ResourceBinding | ClusterResourceBinding | None,
    new: ResourceBinding | ClusterResourceBinding | None,
    view: View,
) -> Iterable[Key]:
    """A policy on its way out waits for its last binding to forget it."""
    if old is None:
        return
    gone = set(well_known.policy_ids_of_binding(old)) - set(
        well_known.policy_ids_of_binding(new) if new is not None else ()
    )
    if not gone:
        return  # as with nearly every change, and there may be many policies
    for policy in (*view.all(PropagationPolicy, old.namespace or None), *view.all(ClusterPropagationPolicy)):
        if policy.metadata.deletion_timestamp is not None and well_known.policy_id(policy) in gone:
            yield key_of(policy)


@controller(
    PropagationPolicy,
    ClusterPropagationPolicy,
    writes=["metadata.finalizers", "metadata.labels", "ResourceBinding.metadata", "ClusterResourceBinding.metadata"],
    changed=spec_changed,
    wakes=[
        Wake(PropagationPolicy, overtaken_policies),
        Wake(ClusterPropagationPolicy, overtaken_policies),
        Wake(ResourceBinding, policy_of_lost_binding),
        Wake(ClusterResourceBinding, policy_of_lost_binding),
    ],
)
def policies(policy: Policy, view: View) -> Iterator[Wish]:
    if policy.metadata.deletion_timestamp is not None:
        yield from farewell(policy, view)
        return
    named = introduced(policy)
    if named != policy:
        yield named
        return
    for template in templates_claimed_by(policy, view):
        if not policy_priority(selectors_of(policy), template):
            yield from unclaimed(template, view)
    if policy.spec.preemption == "Always" and well_known.setting(view, "policy-preemption", default=True):
        yield from preempt(policy, view)


def introduced(policy: Policy) -> Policy:
    """What an admission webhook would have added: a permanent id and the finalizer."""
    own = isinstance(policy, PropagationPolicy)
    finalizer = well_known.POLICY_FINALIZER if own else well_known.CLUSTER_POLICY_FINALIZER
    return policy.but(
        metadata=policy.metadata.but(
            labels=policy.metadata.labels
            | {(well_known.PP_ID if own else well_known.CPP_ID): well_known.policy_id(policy)},
            finalizers=tuple(dict.fromkeys((*policy.metadata.finalizers, finalizer))),
        )
    )


def templates_claimed_by(policy: Policy, view: View) -> list[Raw]:
    found = []
    for binding in well_known.bindings_of_policy(view, well_known.policy_id(policy)):
        template = view.raw(well_known.template_ref(binding))
        if template is not None and is_claimed_by(template, policy):
            found.append(template)
    return found


def is_claimed_by(template: Raw, policy: Policy) -> bool:
    labels = well_known.labels_of(template)
    label = well_known.PP_ID if isinstance(policy, PropagationPolicy) else well_known.CPP_ID
    return labels.get(label) == well_known.policy_id(policy)


def farewell(policy: Policy, view: View) -> Iterator[Wish]:
    """Let go of every template, binding first; what runs in the members goes on running."""
    left = False
    for selector in policy.spec.resource_selectors:
        namespace = policy.namespace or selector.namespace or None
        for template in view.raws(selector.api_version, selector.kind, namespace):
            if is_claimed_by(template, policy):
                left = True
                yield from unclaimed(template, view)
    if left:
        yield Again(0.5)
        return
    own = (well_known.POLICY_FINALIZER, well_known.CLUSTER_POLICY_FINALIZER)
    finalizers = tuple(f for f in policy.metadata.finalizers if f not in own)
    yield policy.but(metadata=policy.metadata.but(finalizers=finalizers))


def preempt(policy: Policy, view: View) -> Iterator[Wish]:
    """Take over the templates this policy names, where its rank is higher than the present claimant's."""
    for selector in policy.spec.resource_selectors:
        if not selector.name:
            continue
        namespace = policy.namespace or selector.namespace
        template = view.raw(Ref(selector.api_version, selector.kind, namespace, selector.name))
        if template is None or is_claimed_by(template, policy):
            continue
        holder, _ = claimant(template, view)
        if holder is not None and outranks(policy, holder):
            yield Make(claimed(template, policy), seen=template)
            yield Note(
                well_known.ref_of_raw(template),
                "PreemptPolicySucceed",
                f"Policy({name_of(policy)}) preempted policy({name_of(holder)}) successfully",
                SOURCE,
            )


def outranks(policy: Policy, holder: Policy) -> bool:
    own, theirs = isinstance(policy, PropagationPolicy), isinstance(holder, PropagationPolicy)
    if own != theirs:
        return own  # a namespace's own policy beats any cluster-wide one, never the other way
    return (policy.spec.priority or 0) > (holder.spec.priority or 0)


def name_of(policy: Policy) -> str:
    return f"{policy.namespace}/{policy.name}" if policy.namespace else policy.name
