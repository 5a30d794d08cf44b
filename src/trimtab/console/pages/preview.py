"""Preview: what an edit of a policy, or any other objects, would do; nothing is written."""

from collections.abc import Mapping

import yaml

from trimtab.api.value import Raw
from trimtab.api.yaml_documents import YamlError, YamlLimits, load_yaml_documents
from trimtab.client.client import Client
from trimtab.console.actions import ActionError, Form, action, value_of
from trimtab.console.page import PageContext, View, page
from trimtab.console.pages.rebalance import check_may_plan, plan_view
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import path_to, query_of
from trimtab.dryrun.change import Change
from trimtab.dryrun.documents import documents_in
from trimtab.dryrun.plan_result import Plan
from trimtab.errors import Forbidden, InputError
from trimtab.server.auth.authorize import Action
from trimtab.server.request import large_objects

MAX_OBJECTS = 50
MAX_TEXT = YamlLimits(nodes=10_000, size=128 << 10)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MAX_CHARACTERS_IN_LOOP = 4 << 10
SERVER_FIELDS = ("managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink")


def policy_name(context: PageContext) -> tuple[str, str]:
    """Namespace and name of the policy that is edited; a cluster-wide one has no namespace."""
    namespace, _, name = context.query.get("policy", "").rpartition("/")
    return namespace, name


def actions_of(context: PageContext) -> Mapping[str, Action]:
    namespace, name = policy_name(context)
    resource = "propagationpolicies" if namespace else "clusterpropagationpolicies"
    return {"get": Action("get", "policy.karmada.io", resource, namespace=namespace, name=name)} if name else {}


def text_of(*objects: Raw) -> str:
    return "---\n".join(str(yaml.safe_dump(dict(raw), sort_keys=False, width=110)) for raw in objects)


def without_server_fields(raw: Raw) -> Raw:
    metadata = {key: value for key, value in raw.get("metadata", {}).items() if key not in SERVER_FIELDS}
    annotations = {
        key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != LAST_APPLIED
    }
    metadata |= {"annotations": annotations} if annotations else {}
    return {**{key: value for key, value in raw.items() if key != "status"}, "metadata": metadata}


def plan_of(context: PageContext) -> Plan | None:
    """The plan that the address names, if the user may see plans."""
    known = context.services.known_plan
    if known is None or not context.visibility.clusters:
        return None
    return known(context.query.get("plan", ""))


async def prepare_text(context: PageContext) -> str:
    """The objects of the plan, else the policy as it is stored, if the user may read it."""
    plan = plan_of(context)
    if plan is not None:
        return await large_objects.run(True, text_of, *plan.change.objects)
    raw = context.services.policy(*policy_name(context)) if context.may.get("get") else None
    return await large_objects.run(True, text_of, without_server_fields(raw)) if raw is not None else ""


@page("preview", "preview.html", "workloads", live={"pulse": PULSE_TOPICS}, actions=actions_of, prepare=prepare_text)
def preview(context: PageContext) -> View:
    plan = plan_of(context)
    is_gone = bool(context.query.get("plan")) and plan is None
    return {
        "policy": context.query.get("policy", ""),
        "text": context.extra or "",
        "plan": plan_view(plan, context) if plan is not None else None,
        "objects": list(plan.objects) if plan is not None else [],
        "is_gone": is_gone,
        "may_read": context.may.get("get", True),
    }


def objects_in(text: str) -> tuple[Raw, ...]:
    """The objects of a form."""
    found: list[Raw] = []
    try:
        for number, document in enumerate(load_yaml_documents(text, MAX_TEXT), 1):
            if document is not None:
                found += (one.obj for one in documents_in(document, "the text", number))
    except YamlError as fault:
        raise InputError(f"that is not YAML: {fault}") from fault
    if not found or len(found) > MAX_OBJECTS:
        raise InputError(f"give 1 to {MAX_OBJECTS} objects")
    return tuple(found)


async def check_may_read(raw: Raw, context: PageContext) -> None:
    """A plan says whether an object would change, so its author must be allowed to read what is stored."""
    resource = context.services.resource(raw["apiVersion"], raw["kind"])
    if resource is None:
        return
    namespace = (raw["metadata"].get("namespace") or "default") if resource.namespaced else ""
    name = raw["metadata"]["name"]
    if not await context.allows(Action("get", resource.group, resource.plural, namespace=namespace, name=name)):
        raise Forbidden(f"a preview of {raw['kind']} {name} needs get on {resource.plural}, which you do not have")


@action("preview/plan")
async def plan_objects(context: PageContext, client: Client, form: Form) -> str:
    """Plan what applying these objects would do."""
    if context.services.plan is None:
        raise ActionError("this console cannot plan")
    check_may_plan(context)
    text = value_of(form, "objects")
    objects = await large_objects.run(len(text) > MAX_CHARACTERS_IN_LOOP, objects_in, text)
    for raw in objects:
        await check_may_read(raw, context)
    plan = await context.services.plan(Change(objects=objects), context.now, context.user)
    return path_to("preview") + query_of([("policy", value_of(form, "policy")), ("plan", plan.hash)])
