"""Copies the replicas that autoscalers in members have chosen into the template, so that scheduling knows them."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.apps import Deployment
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.value import Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.autoscaling.federated_hpa import is_duplicated
from trimtab.controllers.contract import Effect, Ensure, Trigger, View, controller
from trimtab.interpret.names import binding_name
from trimtab.interpret.native.retain import RETAIN_REPLICAS


def deployment_of_binding(old: ResourceBinding | None, new: ResourceBinding | None, view: View) -> Iterable[Key]:
    """The status of a binding was collected: what the template waits for may be there now."""
    if new is not None and new.spec.resource.kind == "Deployment" and (old is None or old.status != new.status):
        resource = new.spec.resource
        deployment = view.get(Deployment, resource.namespace, resource.name)
        if deployment is not None and is_marked(deployment):
            yield Key(kind_of(Deployment).id, resource.namespace, resource.name)


def is_marked(deployment: Deployment) -> bool:
    return deployment.metadata.labels.get(RETAIN_REPLICAS) == "true"


def marked_changed(old: Deployment | None, new: Deployment) -> bool:
    return is_marked(new)


@controller(
    Deployment,
    writes=["Deployment.spec.replicas"],
    predicate=marked_changed,
    triggers=[Trigger(ResourceBinding, deployment_of_binding)],
    resumes=True,
)
def replicas_sync(deployment: Deployment, view: View) -> Iterator[Effect]:
    """Only where replicas are divided: otherwise the template has the replicas of one cluster."""
    binding = view.get(ResourceBinding, deployment.namespace, binding_name("Deployment", deployment.name))
    template = view.raw(well_known.ref_of(deployment))
    if not is_marked(deployment) or binding is None or template is None or is_duplicated(binding):
        return
    spec, collected = template["spec"], (template.get("status") or {}).get("replicas", 0)
    if spec.get("replicas") != collected and is_collected(template, binding):
        yield Ensure({**template, "spec": {**spec, "replicas": collected}}, seen=template)


def is_collected(template: Raw, binding: ResourceBinding) -> bool:
    """Whether the last change of the template has reached the members, and their status has come back."""
    if template["spec"].get("replicas") != binding.spec.replicas:
        return False
    if binding.metadata.generation != binding.status.scheduler_observed_generation:
        return False
    if len(binding.status.aggregated_status) != len(binding.spec.clusters):
        return False
    counts = [int((item.status or {}).get("replicas") or 0) for item in binding.status.aggregated_status]
    return all(counts) and sum(counts) == (template.get("status") or {}).get("replicas", 0)
