"""Counts the works of a ManifestWorkReplicaSet for budgets: one per cluster, like replicas of a workload."""

from collections.abc import Iterable

from trimtab.api.kinds.disruption import DisruptionBudget, InFlightDisruption
from trimtab.api.kinds.ocm_work import WORK_GROUP, ManifestWork, ManifestWorkReplicaSet
from trimtab.api.names import label_value_faults
from trimtab.controllers import well_known
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.contract import Index, View
from trimtab.decide.gate import Availability

SET_LABEL = f"{WORK_GROUP}/manifestworkreplicaset"
KIND = "ManifestWorkReplicaSet"


def set_label_value(namespace: str, name: str) -> str:
    """The label value of a set on its works: as upstream if that is a valid label value, else a prefix and a hash."""
    text = f"{namespace}.{name}"
    return text if not label_value_faults(text) else f"{name[:40].rstrip('-_.')}.{well_known.permanent_id(text)[:16]}"


def label_values_of_set(subject: ManifestWorkReplicaSet) -> Iterable[str]:
    return [set_label_value(subject.namespace, subject.name)]


SETS_BY_LABEL = Index("replica sets by their label", ManifestWorkReplicaSet, label_values_of_set)


def sets_of(work: ManifestWork, view: View) -> Iterable[ManifestWorkReplicaSet]:
    """The set that created this work, if any."""
    return [subject for label in set_labels_of_work(work) for subject in view.by_index(SETS_BY_LABEL, label)]


def set_labels_of_work(work: ManifestWork) -> Iterable[str]:
    return [work.metadata.labels[SET_LABEL]] if SET_LABEL in work.metadata.labels else []


WORKS_OF_SET = Index("works of a replica set", ManifestWork, set_labels_of_work)


def works_of(subject: ManifestWorkReplicaSet, view: View) -> list[ManifestWork]:
    return works_by_set_name(subject.namespace, subject.name, view)


def works_by_set_name(namespace: str, name: str, view: View) -> list[ManifestWork]:
    return list(view.by_index(WORKS_OF_SET, set_label_value(namespace, name)))


def budget_object_name(subject: ManifestWorkReplicaSet) -> str:
    """The name of a set in budgets."""
    return f"{KIND}/{subject.name}"


def is_serving(work: ManifestWork) -> bool:
    """Whether all objects are available and settled, and the work is not being deleted."""
    conditions = work.status.conditions
    settled = is_condition_true(conditions, "Available") and not is_condition_true(conditions, "Progressing")
    return settled and work.metadata.deletion_timestamp is None


def covered_sets(budget: DisruptionBudget, view: View) -> list[ManifestWorkReplicaSet]:
    selector = budget.spec.selector
    if selector is None:
        return []
    sets = view.all(ManifestWorkReplicaSet, budget.namespace)
    return [subject for subject in sets if selector.matches(subject.metadata.labels)]


def availability_of(budget: DisruptionBudget, view: View) -> Availability:
    """All works of the covered sets, and those that serve and are not admitted for removal."""
    sets = covered_sets(budget, view)
    works = [(budget_object_name(subject), work) for subject in sets for work in works_of(subject, view)]
    leaving = {(entry.object, entry.from_) for entry in budget.status.in_flight if is_of_set(entry)}
    remaining = [work for name, work in works if (name, work.namespace) not in leaving]
    return Availability(len(works), sum(is_serving(work) for work in remaining))


def is_of_set(entry: InFlightDisruption) -> bool:
    return entry.object.startswith(f"{KIND}/")


def is_still_present(entry: InFlightDisruption, namespace: str, view: View) -> bool:
    """Whether the work that was admitted for removal still exists."""
    works = works_by_set_name(namespace, entry.object.removeprefix(f"{KIND}/"), view)
    return any(work.namespace == entry.from_ for work in works)
