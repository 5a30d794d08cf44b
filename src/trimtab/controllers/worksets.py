"""The works of a ManifestWorkReplicaSet as a budget counts them: one in each cluster, like replicas of a workload."""

from collections.abc import Iterable

from trimtab.api.kinds.disruption import DisruptionBudget, InFlight
from trimtab.api.kinds.ocm import WORK_GROUP, ManifestWork, ManifestWorkReplicaSet
from trimtab.controllers import marks
from trimtab.controllers.contract import Index, View
from trimtab.decide.door import Footing

SET_LABEL = f"{WORK_GROUP}/manifestworkreplicaset"
KIND = "ManifestWorkReplicaSet"


def set_label_of(work: ManifestWork) -> Iterable[str]:
    return [work.metadata.labels[SET_LABEL]] if SET_LABEL in work.metadata.labels else []


WORKS_OF_SET = Index("works of a replica set", ManifestWork, set_label_of)


def works_of(subject: ManifestWorkReplicaSet, view: View) -> list[ManifestWork]:
    return list(view.having(WORKS_OF_SET, f"{subject.namespace}.{subject.name}"))


def object_of(subject: ManifestWorkReplicaSet) -> str:
    """How budgets name a set."""
    return f"{KIND}/{subject.name}"


def serves(work: ManifestWork) -> bool:
    """Whether anybody would miss it: all of it is there and does well, and it is not on its way out."""
    said = work.status.conditions
    well = marks.is_true(said, "Available") and not marks.is_true(said, "Progressing")
    return well and work.metadata.deletion_timestamp is None


def covered_sets(budget: DisruptionBudget, view: View) -> list[ManifestWorkReplicaSet]:
    selector = budget.spec.selector
    if selector is None:
        return []
    sets = view.all(ManifestWorkReplicaSet, budget.namespace)
    return [subject for subject in sets if selector.matches(subject.metadata.labels)]


def footing(budget: DisruptionBudget, view: View) -> Footing:
    """Works that are there and not on their way out, and those that were let go and are not seen to go yet."""
    works = [work for subject in covered_sets(budget, view) for work in works_of(subject, view)]
    going = {(entry.object, entry.from_) for entry in budget.status.in_flight if is_of_set(entry)}
    staying = [work for work in works if (object_named(work), work.namespace) not in going]
    return Footing(len(works), sum(serves(work) for work in staying))


def object_named(work: ManifestWork) -> str:
    return f"{KIND}/{work.metadata.labels[SET_LABEL].partition('.')[2]}"


def is_of_set(entry: InFlight) -> bool:
    return entry.object.startswith(f"{KIND}/")


def is_leaving(entry: InFlight, namespace: str, view: View) -> bool:
    """Whether the work that was allowed to go is still on its way out."""
    label = f"{namespace}.{entry.object.removeprefix(f'{KIND}/')}"
    return any(work.namespace == entry.from_ for work in view.having(WORKS_OF_SET, label))
