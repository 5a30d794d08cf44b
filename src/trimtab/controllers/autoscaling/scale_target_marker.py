"""Marks the templates that a propagated HorizontalPodAutoscaler scales, so that members keep their own replicas."""

from collections.abc import Iterable, Iterator

from trimtab.api.kinds.native.apps import Deployment, StatefulSet
from trimtab.api.kinds.native.autoscaling import CrossVersionObjectReference, HorizontalPodAutoscaler
from trimtab.api.value import Key, Object, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Effect, Ensure, Index, Ref, RememberInProcess, Topic, Trigger, View, controller
from trimtab.interpret.native.retain import RETAIN_REPLICAS

MARKED = "true"
LAST_TARGET: Topic[tuple[str, str], Ref] = Topic("scale target", shared=True)


def autoscalers_of_target(autoscaler: HorizontalPodAutoscaler) -> Iterable[str]:
    reference = autoscaler.spec.scale_target_ref
    yield f"{autoscaler.namespace}/{reference.kind}/{reference.name}"


AUTOSCALERS_BY_TARGET = Index("autoscalers of a target", HorizontalPodAutoscaler, autoscalers_of_target)


def autoscalers_of_new_target(old: Object | None, new: Object | None, view: View) -> Iterable[Key]:
    """The target was created after its autoscaler."""
    if old is None and new is not None:
        ref = well_known.ref_of(new)
        for autoscaler in view.by_index(AUTOSCALERS_BY_TARGET, f"{ref.namespace}/{ref.kind}/{ref.name}"):
            yield Key("horizontalpodautoscalers.autoscaling", autoscaler.namespace, autoscaler.name)


def unmark_last_target(key: Key, view: View) -> Iterator[Effect]:
    last = view.recall(LAST_TARGET, (key.namespace, key.name))
    if last is not None:
        yield from set_mark(last, None, view)


@controller(
    HorizontalPodAutoscaler,
    writes=["Deployment.metadata.labels", "StatefulSet.metadata.labels"],
    triggers=[Trigger(Deployment, autoscalers_of_new_target), Trigger(StatefulSet, autoscalers_of_new_target)],
    on_deleted=unmark_last_target,
)
def scale_target_marker(autoscaler: HorizontalPodAutoscaler, view: View) -> Iterator[Effect]:
    target = target_ref(autoscaler.namespace, autoscaler.spec.scale_target_ref)
    memory_key = (autoscaler.namespace, autoscaler.name)
    last = view.recall(LAST_TARGET, memory_key)
    if last is not None and last != target:
        yield from set_mark(last, None, view)
    is_propagated = any(label in autoscaler.metadata.labels for label in well_known.POLICY_ID_LABELS)
    if is_propagated and autoscaler.metadata.deletion_timestamp is None:
        yield from set_mark(target, MARKED, view)
        if last != target:
            yield RememberInProcess(LAST_TARGET, memory_key, target)


def target_ref(namespace: str, reference: CrossVersionObjectReference) -> Ref:
    return Ref(reference.api_version, reference.kind, namespace, reference.name)


def set_mark(target: Ref, value: str | None, view: View) -> Iterator[Effect]:
    template: Raw | None = view.raw(target)
    if template is None or well_known.labels_of(template).get(RETAIN_REPLICAS) == value:
        return
    yield Ensure(well_known.with_metadata(template, labels={RETAIN_REPLICAS: value}, annotations={}), seen=template)
