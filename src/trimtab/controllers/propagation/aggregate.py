"""Works of a binding -> its aggregated status and FullyApplied, and the status of the template itself."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec

from trimtab.api.kind import key_of, kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import AggregatedStatusItem, Binding, Work
from trimtab.api.value import Condition, Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Make, Note, Remember, View, Wake, Wish, controller
from trimtab.controllers.propagation.dispatch import expected_clusters, works_of
from trimtab.controllers.propagation.execute import is_ready
from trimtab.controllers.propagation.schedule import is_ours
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.operations import Operation, Uninterpretable

ANSWER_SECONDS = 5.0
LONGEST_ANSWER_SECONDS = 20.0
SCHEDULER_SECONDS = 0.25
WAITING = "waiting for answers"


class Waiting(NamedTuple):
    """Since when a report waits for the answers that are missing, and how long."""

    since: datetime
    seconds: float
    cluster: str = ""
    """One that has not answered; while this is so, whatever the others say changes nothing."""

    def is_outdated(self, binding: Binding) -> bool:
        """Whether it was about an earlier placement."""
        scheduled = binding.status.last_scheduled_time
        return scheduled is not None and self.since < scheduled

    def left(self, view: View) -> float:
        return self.seconds - (view.now - self.since).total_seconds()


def binding_of_work(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    if (
        old is not None
        and new is not None
        and (old.status, old.metadata.deletion_timestamp)
        == (
            new.status,
            new.metadata.deletion_timestamp,
        )
    ):
        return
    work = new or old
    if work is None or (key := key_of_binding(work)) is None:
        return
    if new is None or new.metadata.deletion_timestamp is not None or not waits_for_an_answer(new, key, view):
        yield key


def waits_for_an_answer(work: Work, key: Key, view: View) -> bool:
    """Whether the report of this Work's binding still waits for a cluster, and a timer is set for when it waits no more."""
    held: Waiting | None = view.recall(WAITING, key)
    if held is None or not held.cluster:
        return False
    binding = well_known.binding_at(view, key.namespace, key.name)
    awaited = view.get(Work, well_known.execution_namespace(held.cluster), work.name)
    return (
        binding is not None
        and not held.is_outdated(binding)
        and held.left(view) > 0
        and (awaited is None or well_known.condition_of(awaited.status.conditions, "Applied") is None)
        and any(target.name == held.cluster for target in binding.spec.clusters)
        and cluster_answers(held.cluster, view)
    )


def key_of_binding(work: Work) -> Key | None:
    annotations = work.metadata.annotations
    if well_known.RB_NAME in annotations:
        return Key(
            kind_of(well_known.BINDINGS[0]).id,
            annotations.get(well_known.RB_NAMESPACE, ""),
            annotations[well_known.RB_NAME],
        )
    if well_known.CRB_NAME in annotations:
        return Key(kind_of(well_known.BINDINGS[1]).id, "", annotations[well_known.CRB_NAME])
    return None


def bindings_of_cluster(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """When a cluster goes dark, what it last said of its workloads is no longer known to be true."""
    if not view.profile.unknown_health_when_not_ready or old is None or new is None:
        return
    if is_ready(old) != is_ready(new):
        for binding in well_known.bindings_in(view, new.name):
            yield Key(kind_of(binding).id, binding.namespace, binding.name)


def template_edited(old: Binding | None, new: Binding) -> bool:
    """Of a binding that had no place and of which nothing is reported, its Works tell as soon as there are any."""
    reported = well_known.condition_of(new.status.conditions, "FullyApplied") is not None
    if not reported and not expected_clusters(old or new):
        return False
    return (
        old is None
        or (old.metadata.generation != new.metadata.generation and old.spec != new.spec)
        or (reported and old.status.last_scheduled_time is None and new.status.last_scheduled_time is not None)
    )


@controller(
    *well_known.BINDINGS,
    writes=["status.conditions", "status.aggregatedStatus"],
    changed=template_edited,
    wakes=[Wake(Work, binding_of_work), Wake(Cluster, bindings_of_cluster)],
)
def aggregate(binding: Binding, view: View) -> Iterator[Wish]:
    if binding.metadata.deletion_timestamp is not None:
        return
    works = [work for work in works_of(binding, view) if work.metadata.deletion_timestamp is None]
    if not works and well_known.condition_of(binding.status.conditions, "FullyApplied") is None:
        yield from forgotten(binding, view)
        return  # nothing was ever sent, so nobody can say how it fares
    if (wait := more_to_come(binding, works, view)) is not None:
        yield from wait
        return
    items = tuple(sorted((item_of(work, binding, view) for work in works), key=lambda item: item.cluster_name))
    applied = fully_applied(binding, items, works, view)
    status = binding.status.but(
        aggregated_status=items, conditions=well_known.with_condition(binding.status.conditions, applied)
    )
    source = (
        "cluster-resource-binding-status-controller"
        if well_known.cluster_wide(binding)
        else "resource-binding-status-controller"
    )
    if status != binding.status:
        yield from next_report(binding, view)
        yield binding.but(status=status)
        said = f"Update {well_known.binding_text(binding)} with AggregatedStatus successfully."
        yield Note(well_known.ref_of(binding), "AggregateStatusSucceed", said, source, routine=True)
    yield from template_status(binding, items, view, source)


def more_to_come(binding: Binding, works: list[Work], view: View) -> tuple[Wish, ...] | None:
    """While some cluster has not answered yet, wait a moment: one report of three says more than three of one.

    For those that cannot answer, because they are not ready, nobody has to wait. For the scheduler's word, everybody has.
    """
    answered = {
        well_known.cluster_of(w.namespace) for w in works if well_known.condition_of(w.status.conditions, "Applied")
    }
    missing = [name for name in expected_clusters(binding) - answered if cluster_answers(name, view)]
    if not missing and not is_being_placed(binding):
        return None
    before = waiting(binding, view)
    held = before or Waiting(view.now, ANSWER_SECONDS)
    left = held.left(view)
    if left <= 0:
        return None
    if not missing:
        again = Again(min(left, SCHEDULER_SECONDS))
        return (again,) if before else (Remember(WAITING, key_of(binding), held), again)
    if held.cluster in missing:
        return (Again(left),)
    last = max(missing)  # works are sent in the order of the names, so that the others have probably answered before
    return Remember(WAITING, key_of(binding), held._replace(cluster=last)), Again(left)


def is_being_placed(binding: Binding) -> bool:
    """Whether the scheduler has said where, but not yet that it is done: on a distant API server these are two writes.

    A report that came between them would tell of the end of the story before its beginning.
    """
    return (
        bool(binding.spec.clusters)
        and is_ours(binding)
        and well_known.condition_of(binding.status.conditions, "Scheduled") is None
    )


def waiting(binding: Binding, view: View) -> Waiting | None:
    """Since when the report of this placement waits, if it does."""
    held: Waiting | None = view.recall(WAITING, key_of(binding))
    return None if held is None or held.is_outdated(binding) else held


def next_report(binding: Binding, view: View) -> Iterator[Wish]:
    """While answers are still missing, each report waits twice as long as the one before."""
    key = key_of(binding)
    held: Waiting | None = view.recall(WAITING, key)
    if held is not None:
        yield Remember(WAITING, key, Waiting(view.now, min(LONGEST_ANSWER_SECONDS, held.seconds * 2)))


def forgotten(binding: Binding, view: View) -> Iterator[Wish]:
    """With no Work left there is nobody to wait for, and no timer is set."""
    key = key_of(binding)
    held: Waiting | None = view.recall(WAITING, key)
    if held is not None and held.cluster:
        yield Remember(WAITING, key, held._replace(cluster=""))


def item_of(work: Work, binding: Binding, view: View) -> AggregatedStatusItem:
    """How one cluster stands, as its Work tells it."""
    name = well_known.cluster_of(work.namespace)
    applied = well_known.condition_of(work.status.conditions, "Applied")
    before = next((i for i in binding.status.aggregated_status if i.cluster_name == name), None)
    if applied is None or applied.status != "True":
        lost = AggregatedStatusItem(
            cluster_name=name, applied_message=applied.message if applied else "", health="Unknown"
        )
        if before is None or not uses_own_fields(binding, view):
            return lost
        # what a failed write hides for a while is still the same copy, as old and as settled as it was
        return lost.but(settled=before.settled, creation_timestamp=before.creation_timestamp)
    first = work.status.manifest_statuses[0] if work.status.manifest_statuses else None
    health = (first.health if first else "") or "Unknown"
    if view.profile.unknown_health_when_not_ready and not cluster_answers(name, view):
        health = "Unknown"
    item = AggregatedStatusItem(cluster_name=name, applied=True, status=first.status if first else None, health=health)
    if uses_own_fields(binding, view):
        since = before.creation_timestamp if before is not None else None
        settled = health == "Healthy" or (before is not None and before.settled)
        collected = view.now.replace(microsecond=0) if first is not None else None
        item = item.but(settled=settled, creation_timestamp=since or collected)
    return item


def cluster_answers(name: str, view: View) -> bool:
    cluster = view.get(Cluster, "", name)
    return cluster is not None and is_ready(cluster)


def uses_own_fields(binding: Binding, view: View) -> bool:
    """Fields that upstream does not have are written where a policy uses them, or always in our own profile."""
    failover = binding.spec.failover.application if binding.spec.failover else None
    if failover is None:
        return False
    return view.profile.always_write_own_fields or failover.pre_conditions is not None


def fully_applied(
    binding: Binding, items: tuple[AggregatedStatusItem, ...], works: list[Work], view: View
) -> Condition:
    expected = expected_clusters(binding)
    done = (
        bool(expected) and len(items) == len(expected) and all(i.applied and i.cluster_name in expected for i in items)
    )
    if done and view.profile.applied_knows_generation:
        done = all(is_current(work, binding, view) for work in works)
    now = view.now.replace(microsecond=0)
    if done:
        return Condition(
            type="FullyApplied",
            status="True",
            reason="FullyAppliedSuccess",
            message="All works have been successfully applied",
            last_transition_time=now,
        )
    return Condition(
        type="FullyApplied",
        status="False",
        reason="FullyAppliedFailed",
        message="Failed to apply all works, see status.aggregatedStatus for details",
        last_transition_time=now,
    )


def is_current(work: Work, binding: Binding, view: View) -> bool:
    """Whether what the member has answers the template as it is now."""
    for manifest, status in zip(work.spec.workload.manifests, work.status.manifest_statuses, strict=False):
        sent = well_known.annotations_of(manifest).get(well_known.TEMPLATE_GENERATION, "")
        seen = (status.status or {}).get("resourceTemplateGeneration")
        if sent and seen is not None and str(seen) != sent:
            return False
    return len(work.status.manifest_statuses) == len(work.spec.workload.manifests)


def template_status(
    binding: Binding, items: tuple[AggregatedStatusItem, ...], view: View, source: str
) -> Iterator[Wish]:
    """What people and tools read on the template: the sum of what the members say."""
    interpreter: Interpreter = view.part("interpreter")
    ref = well_known.template_ref(binding)
    template = view.raw(ref)
    if template is None or not interpreter.interprets((ref.api_version, ref.kind), Operation.AGGREGATE_STATUS):
        return
    if template["metadata"].get("uid") != ref.uid or binding.status.last_scheduled_time is None:
        return
    leaving = {task.from_cluster for task in binding.spec.graceful_eviction_tasks}
    counted: list[Raw] = [
        msgspec.to_builtins(item)
        for item in items
        if not (view.profile.template_status_without_evicting and item.cluster_name in leaving)
    ]
    try:
        wanted = interpreter.aggregate(template, counted)
    except Uninterpretable as fault:
        yield Note(ref, "AggregateStatusFailed", str(fault), source, "Warning")
        return
    if (wanted.get("status") or {}) != (template.get("status") or {}):
        yield Make(
            {**template, "status": wanted.get("status") or {}}, seen=template, subresource="status", replace=True
        )
        yield Note(ref, "AggregateStatusSucceed", "Update Resource with AggregatedStatus successfully.", source)
