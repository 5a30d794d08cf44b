"""Matches templates with propagation policies and creates a binding for each template that a policy claims."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from trimtab.api.kinds.override_policy import ClusterOverridePolicy, OverridePolicy
from trimtab.api.kinds.policy import ClusterPropagationPolicy, Policy, PropagationPolicy
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import (
    CreateCompleted,
    Effect,
    Ensure,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    Topic,
    Trigger,
    View,
    controller,
)
from trimtab.controllers.propagation.claim_metadata import claiming_policy, release_claim, with_claim
from trimtab.controllers.propagation.dependencies import update_attached_binding
from trimtab.controllers.propagation.desired_binding import BindingNotReady, binding_for, merge_binding
from trimtab.controllers.propagation.policy_matching import (
    look_for_policy,
    missing_overrides,
    selected_templates,
    specificity_of,
)
from trimtab.controllers.propagation.template_scope import is_generated, is_reserved
from trimtab.controllers.quota.quota_usage import QuotaLedger, use_of
from trimtab.controllers.selection import RESUMED, runs_here
from trimtab.interpret.operations import Operation

SOURCE = "resource-detector"
QUOTA_RETRY_SECONDS = 30
SERVER_FIELDS = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


def content_changed(old: Raw | None, new: Raw) -> bool:
    """Whether anything but the status, managedFields and resourceVersion changed."""
    if old is None:
        return True
    if any(old.get(key) != value for key, value in new.items() if key not in ("metadata", "status")) or any(
        key not in new for key in old if key != "status"
    ):
        return True
    return _without_server_fields(old["metadata"]) != _without_server_fields(new["metadata"])


def _without_server_fields(metadata: Raw) -> Raw:
    return {key: value for key, value in metadata.items() if key not in ("managedFields", "resourceVersion")}


def templates_of_policy(old: Policy | None, new: Policy | None, view: View) -> Iterable[Key]:
    """A policy was created, changed or deleted: the templates it selects, and those it has claimed."""
    policy = new or old
    if policy is None or (
        old is not None
        and new is not None
        and (old.metadata.generation, old.metadata.labels) == (new.metadata.generation, new.metadata.labels)
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    ):
        return
    for raw in selected_templates(policy, view):
        if key := view.key(well_known.ref_of_raw(raw)):
            yield key
    for binding in well_known.bindings_of_policy(view, well_known.policy_id(policy)):
        if key := view.key(well_known.template_ref(binding)):
            yield key


def templates_of_override(
    old: OverridePolicy | ClusterOverridePolicy | None, new: OverridePolicy | ClusterOverridePolicy | None, view: View
) -> Iterable[Key]:
    """A new override policy: the templates of propagation policies that wait for it (`dependentOverrides`)."""
    if old is not None or new is None:
        return
    for policy in (*view.all(PropagationPolicy, new.namespace), *view.all(ClusterPropagationPolicy)):
        if new.name in policy.spec.dependent_overrides:
            yield from templates_of_policy(None, policy, view)


def template_of_binding(old: Binding | None, new: Binding | None, view: View) -> Iterable[Key]:
    """A deleted binding is recreated from its template."""
    if new is None and old is not None and (key := view.key(well_known.template_ref(old))):
        yield key


@controller(
    writes=["ResourceBinding", "ClusterResourceBinding"],
    predicate=content_changed,
    triggers=[
        Trigger(PropagationPolicy, templates_of_policy),
        Trigger(ClusterPropagationPolicy, templates_of_policy),
        Trigger(OverridePolicy, templates_of_override),
        Trigger(ClusterOverridePolicy, templates_of_override),
        Trigger(ResourceBinding, template_of_binding),
        Trigger(ClusterResourceBinding, template_of_binding),
    ],
    resumes=True,
)
def detect(template: Raw, view: View) -> Iterator[Effect]:
    metadata = template["metadata"]
    if metadata.get("deletionTimestamp") or is_reserved(metadata.get("namespace", ""), view):
        return
    if is_generated(template, view):
        return
    if well_known.labels_of(template).get(well_known.CLAIMED_BY):
        return
    key = well_known.ref_without_uid(template)
    known = view.recall(TEMPLATE, key)
    policy, is_stale = claiming_policy(template, view)
    if is_stale:
        yield from release_claim(template, view)
        return
    if policy is None:
        policy = look_for_policy(template, view)
    if policy is None or policy.metadata.deletion_timestamp is not None:
        yield from update_attached_binding(template, view)
        yield RememberInProcess(TEMPLATE, key, template_state(template, None))
        return
    if specificity_of(policy, template):
        if missing := missing_overrides(policy, view):
            yield from wait_for_overrides(missing, template, policy, view)
            return
        claim = with_claim(template, policy)
        if claim != template:
            yield Ensure(claim, seen=template)  # this write triggers the next reconcile, which creates the binding
            return
        current = template_state(template, policy)
        edited = known is None or known.user_content != current.user_content
        is_changed = known != current and not (known is None and finds_settled_bindings(view))
        yield from apply_policy(template, policy, view, user_edited=edited, is_changed=is_changed)
        yield RememberInProcess(TEMPLATE, key, current)
    else:
        yield RememberInProcess(TEMPLATE, key, template_state(template, policy))


def finds_settled_bindings(view: View) -> bool:
    """Whether a template that this process sees for the first time needs no write as long as its binding fits.

    What changed in it while no controller ran reaches the Works without: `dispatch` renders all of them when it starts. It does
    not in a process that resumed from saved caches, where only templates that have changed come here.
    """
    return view.profile.silent_restarts and runs_here("dispatch", view) and not view.settings.get(RESUMED)


class TemplateState(NamedTuple):
    """The inputs of a binding as digests; when two are equal, the binding does not change."""

    user_content: bytes
    """The template without what the control plane added."""
    metadata: bytes
    """All labels and annotations of the template."""
    policy: str
    generation: int


TEMPLATE: Topic[Ref, TemplateState] = Topic("template")


def template_state(template: Raw, policy: Policy | None) -> TemplateState:
    content = {key: value for key, value in template.items() if key not in ("status", "metadata")}
    metadata = {key: value for key, value in template["metadata"].items() if key not in SERVER_FIELDS}
    sections = {section: metadata.pop(section, None) or {} for section in ("labels", "annotations")}
    users = [{key: value for key, value in section.items() if is_user_key(key)} for section in sections.values()]
    return TemplateState(
        digest([content, metadata, users]),
        digest(sections),
        well_known.policy_id(policy) if policy is not None else "",
        policy.metadata.generation if policy is not None else 0,
    )


def digest(value: Any) -> bytes:
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.blake2b(text, digest_size=16).digest()


def is_user_key(key: str) -> bool:
    return ".karmada.io" not in key or key == well_known.SKIP_NAMESPACE


def apply_policy(template: Raw, policy: Policy, view: View, *, user_edited: bool, is_changed: bool) -> Iterator[Effect]:
    """Create or update the binding; a Lazy policy applies only to changes by the user."""
    if user_edited or policy.spec.activation_preference != "Lazy":
        yield from sync_binding(template, policy, view, is_changed=is_changed)


def wait_for_overrides(missing: list[str], template: Raw, policy: Policy, view: View) -> Iterator[Effect]:
    """A policy is not applied and claims nothing until its dependent overrides exist."""
    if not view.profile.record_routine_events:  # upstream records no event
        text = f"{describe_apply(policy)} failed: override policies not found: {', '.join(missing)}"
        yield RecordEvent(well_known.ref_of_raw(template), "ApplyPolicyFailed", text, SOURCE, "Warning")
    yield RequeueAfter(30)


def describe_apply(policy: Policy) -> str:
    if isinstance(policy, PropagationPolicy):
        return f"Apply policy({policy.namespace}/{policy.name})"
    return f"Apply cluster policy({policy.name})"


def sync_binding(template: Raw, policy: Policy, view: View, *, is_changed: bool) -> Iterator[Effect]:
    """Create the binding, or update the fields that the detector owns."""
    ref = well_known.ref_of_raw(template)
    try:
        wanted = binding_for(template, policy, view)
    except BindingNotReady as reason:
        yield RecordEvent(ref, "ApplyPolicyFailed", f"{describe_apply(policy)} failed: {reason}", SOURCE, "Warning")
        yield RequeueAfter(10)
        return
    seen = well_known.binding_at(view, wanted.namespace, wanted.name)
    if seen is not None:
        owner = next((o for o in seen.metadata.owner_references if o.controller), None)
        if owner is not None and owner.uid != ref.uid:
            yield RequeueAfter(
                0.2
            )  # it belongs to a deleted object of the same name: garbage collection deletes it first
            return
        if not is_changed and seen.spec.resource.uid == ref.uid:
            # The resourceVersion also changes with the status; without other changes the binding keeps the old one.
            wanted = wanted.but(spec=wanted.spec.but(resource=seen.spec.resource))
        wanted = merge_binding(seen, wanted)
    if wanted == seen and not is_changed:
        return
    if seen is not None and (why := QuotaLedger(view).charge(wanted.namespace, use_of(seen), use_of(wanted))):
        yield RecordEvent(ref, "ApplyPolicyFailed", f"{describe_apply(policy)} failed: {why}", SOURCE, "Warning")
        yield RequeueAfter(QUOTA_RETRY_SECONDS)
        return
    if wanted.spec.components:
        yield RecordEvent(
            ref, "GetComponentsSucceed", "Get components of resource template successfully.", SOURCE, routine=True
        )
    elif wanted.spec.replica_requirements is not None or wanted.spec.replicas or interprets_replicas(template, view):
        yield RecordEvent(
            ref, "GetReplicasSucceed", "Get replicas of resource template successfully.", SOURCE, routine=True
        )
    if wanted == seen:
        return
    yield CreateCompleted(wanted, by="schedule") if seen is None and view.profile.create_with_decision else wanted
    yield RecordEvent(ref, "ApplyPolicySucceed", f"{describe_apply(policy)} succeed", SOURCE)


def interprets_replicas(template: Raw, view: View) -> bool:
    interpreter = view.interpreter
    return interpreter.interprets((template["apiVersion"], template["kind"]), Operation.REPLICA)
