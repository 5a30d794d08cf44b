"""Preview: what an edit of a policy, or any other objects, would do; nothing is written."""

from collections.abc import Mapping

import yaml

from trimtab.api.value import Raw
from trimtab.api.yaml_documents import YamlError, load_yaml_documents
from trimtab.client.client import Client
from trimtab.console.actions import ActionError, Form, action, value_of
from trimtab.console.page import PageContext, View, page
from trimtab.console.pages.rebalance import plan_view
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import path_to, query_of
from trimtab.dryrun.change import Change
from trimtab.dryrun.plan_result import Plan
from trimtab.errors import InputError
from trimtab.server.auth.authorize import Action

MAX_OBJECTS = 50
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SERVER_FIELDS = ("managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink")


def policy_name(context: PageContext) -> tuple[str, str]:
    """Namespace and name of the policy that is edited; a cluster-wide one has no namespace."""
    namespace, _, name = context.query.get("policy", "").rpartition("/")
    return namespace, name


def actions_of(context: PageContext) -> Mapping[str, Action]:
    namespace, name = policy_name(context)
    resource = "propagationpolicies" if namespace else "clusterpropagationpolicies"
    return {"get": Action("get", "policy.karmada.io", resource, namespace=namespace, name=name)} if name else {}


def text_of(objects: tuple[Raw, ...]) -> str:
    return "---\n".join(str(yaml.safe_dump(dict(raw), sort_keys=False, width=110)) for raw in objects)


def without_server_fields(raw: Raw) -> Raw:
    metadata = {key: value for key, value in raw.get("metadata", {}).items() if key not in SERVER_FIELDS}
    annotations = {
        key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != LAST_APPLIED
    }
    metadata |= {"annotations": annotations} if annotations else {}
    return {**{key: value for key, value in raw.items() if key != "status"}, "metadata": metadata}


def stored_policy(context: PageContext) -> str:
    """The policy as it is stored, if the user may read it."""
    if not context.may.get("get"):
        return ""
    raw = context.services.policy(*policy_name(context))
    return text_of((without_server_fields(raw),)) if raw is not None else ""


@page("preview", "preview.html", "workloads", live={"pulse": PULSE_TOPICS}, actions=actions_of)
def preview(context: PageContext) -> View:
    known = context.services.known_plan
    plan: Plan | None = known(context.query.get("plan", "")) if known is not None else None
    is_gone = bool(context.query.get("plan")) and plan is None
    return {
        "policy": context.query.get("policy", ""),
        "text": text_of(plan.change.objects) if plan is not None else stored_policy(context),
        "plan": plan_view(plan, context) if plan is not None else None,
        "objects": list(plan.objects) if plan is not None else [],
        "is_gone": is_gone,
        "may_read": context.may.get("get", True),
    }


def objects_in(text: str) -> tuple[Raw, ...]:
    """The objects of a form."""
    try:
        found = [document for document in load_yaml_documents(text) if document is not None]
    except YamlError as fault:
        raise InputError(f"that is not YAML: {fault}") from fault
    if not found or len(found) > MAX_OBJECTS:
        raise InputError(f"give 1 to {MAX_OBJECTS} objects")
    for number, document in enumerate(found, 1):
        if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
            raise InputError(f"document {number} is no object: it needs apiVersion, kind and metadata")
    return tuple(found)


@action("preview/plan")
async def plan_objects(context: PageContext, client: Client, form: Form) -> str:
    """Plan what applying these objects would do."""
    if context.services.plan is None:
        raise ActionError("this console cannot plan")
    plan = await context.services.plan(Change(objects=objects_in(value_of(form, "objects"))), context.now)
    return path_to("preview") + query_of([("policy", value_of(form, "policy")), ("plan", plan.hash)])
