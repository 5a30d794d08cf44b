"""The works of a ManifestWorkReplicaSet as a budget counts them: one in each cluster, like replicas of a workload."""

from collections.abc import Iterable

from trimtab.api.kinds.disruption import DisruptionBudget, InFlight
from trimtab.api.kinds.ocm import WORK_GROUP, ManifestWork, ManifestWorkReplicaSet
from trimtab.api.names import label_value_faults
from trimtab.controllers import well_known
from trimtab.controllers.contract import Index, View
from trimtab.decide.gate import Footing

SET_LABEL = f"{WORK_GROUP}/manifestworkreplicaset"
KIND = "ManifestWorkReplicaSet"


def label_of(namespace: str, name: str) -> str:
    """How a work names its set: as upstream does where that fits a label, else by the beginning and a hash."""
    text = f"{namespace}.{name}"
    return text if not label_value_faults(text) else f"{name[:40].rstrip('-_.')}.{well_known.permanent_id(text)[:16]}"


def label_of_set(subject: ManifestWorkReplicaSet) -> Iterable[str]:
    return [label_of(subject.namespace, subject.name)]


SETS_BY_LABEL = Index("replica sets by their label", ManifestWorkReplicaSet, label_of_set)


def sets_of(work: ManifestWork, view: View) -> Iterable[ManifestWorkReplicaSet]:
    """The set that made this work, if there is one."""
    return [subject for label in set_label_of(work) for subject in view.having(SETS_BY_LABEL, label)]


def set_label_of(work: ManifestWork) -> Iterable[str]:
    return [work.metadata.labels[SET_LABEL]] if SET_LABEL in work.metadata.labels else []


WORKS_OF_SET = Index("works of a replica set", ManifestWork, set_label_of)


def works_of(subject: ManifestWorkReplicaSet, view: View) -> list[ManifestWork]:
    return works_named(subject.namespace, subject.name, view)


def works_named(namespace: str, name: str, view: View) -> list[ManifestWork]:
    return list(view.having(WORKS_OF_SET, label_of(namespace, name)))


def object_of(subject: ManifestWorkReplicaSet) -> str:
    """How budgets name a set."""
    return f"{KIND}/{subject.name}"


def serves(work: ManifestWork) -> bool:
    """Whether anybody would miss it: all of it is there and does well, and it is not on its way out."""
    said = work.status.conditions
    well = well_known.is_true(said, "Available") and not well_known.is_true(said, "Progressing")
    return well and work.metadata.deletion_timestamp is None


def covered_sets(budget: DisruptionBudget, view: View) -> list[ManifestWorkReplicaSet]:
    selector = budget.spec.selector
    if selector is None:
        return []
    sets = view.all(ManifestWorkReplicaSet, budget.namespace)
    return [subject for subject in sets if selector.matches(subject.metadata.labels)]


def footing(budget: DisruptionBudget, view: View) -> Footing:
    """Works that are there and not on their way out, and those that were let go and are not seen to go yet."""
    sets = covered_sets(budget, view)
    works = [(object_of(subject), work) for subject in sets for work in works_of(subject, view)]
    going = {(entry.object, entry.from_) for entry in budget.status.in_flight if is_of_set(entry)}
    staying = [work for name, work in works if (name, work.namespace) not in going]
    return Footing(len(works), sum(serves(work) for work in staying))


def is_of_set(entry: InFlight) -> bool:
    return entry.object.startswith(f"{KIND}/")


def is_leaving(entry: InFlight, namespace: str, view: View) -> bool:
    """Whether the work that was allowed to go is still on its way out."""
    works = works_named(namespace, entry.object.removeprefix(f"{KIND}/"), view)
    return any(work.namespace == entry.from_ for work in works)
