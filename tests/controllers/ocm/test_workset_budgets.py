import pytest
from views import NOON, FakeView

from trimtab.api.kinds.disruption import (
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    InFlightDisruption,
)
from trimtab.api.kinds.ocm_work import ManifestWork, ManifestWorkReplicaSet
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Meta
from trimtab.controllers.ocm.workset_budgets import (
    SET_LABEL,
    availability_of,
    covered_sets,
    is_serving,
    is_still_present,
    set_label_value,
    sets_of,
)

WEB = ManifestWorkReplicaSet(metadata=Meta(name="web", namespace="team", labels={"app": "web"}))


def work(cluster: str, **conditions: str) -> ManifestWork:
    found = tuple(
        Condition(type=type_, status=status, reason="x", last_transition_time=NOON)
        for type_, status in conditions.items()
    )
    made = ManifestWork(metadata=Meta(name="w", namespace=cluster, labels={SET_LABEL: "team.web"}))
    return made.but(status=made.status.but(conditions=found))


def budget(*in_flight: InFlightDisruption, app: str = "web") -> DisruptionBudget:
    return DisruptionBudget(
        metadata=Meta(name="b", namespace="team"),
        spec=DisruptionBudgetSpec(target="Workloads", selector=LabelSelector(match_labels={"app": app})),
        status=DisruptionBudgetStatus(in_flight=in_flight),
    )


def in_flight(cluster: str) -> InFlightDisruption:
    return InFlightDisruption(object="ManifestWorkReplicaSet/web", replicas=1, from_=cluster)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"Available": "True"}, True),
        ({"Available": "True", "Progressing": "False"}, True),
        ({"Available": "True", "Progressing": "True"}, False),
        ({"Available": "False"}, False),
        ({}, False),
    ],
)
def test_work_serves_when_it_is_available_and_settled(conditions: dict[str, str], expected: bool) -> None:
    assert is_serving(work("c1", **conditions)) is expected


def test_terminating_work_does_not_serve() -> None:
    serving = work("c1", Available="True")
    assert not is_serving(serving.but(metadata=serving.metadata.but(deletion_timestamp=NOON)))


def test_work_admitted_for_removal_counts_as_desired_but_not_as_available() -> None:
    works = [work(cluster, Available="True") for cluster in ("c1", "c2", "c3")]
    view = FakeView([WEB, *works, work("c4")])
    assert tuple(availability_of(budget(), view)) == (4, 3)
    assert tuple(availability_of(budget(in_flight("c1")), view)) == (4, 2)


def test_budget_covers_sets_by_label() -> None:
    view = FakeView([WEB])
    assert covered_sets(budget(), view) == [WEB]
    assert covered_sets(budget(app="other"), view) == []


def test_disruption_is_in_flight_until_the_work_is_deleted() -> None:
    assert is_still_present(in_flight("c1"), "team", FakeView([WEB, work("c1")]))
    assert not is_still_present(in_flight("c1"), "team", FakeView([WEB, work("c2")]))


def test_work_finds_its_set_by_the_label_also_when_the_name_is_long() -> None:
    name = "w" * 63
    long = ManifestWorkReplicaSet(metadata=Meta(name=name, namespace="team"))
    labelled = ManifestWork(metadata=Meta(name="w", namespace="c1", labels={SET_LABEL: set_label_value("team", name)}))
    assert sets_of(labelled, FakeView([long, WEB])) == [long]
    assert len(set_label_value("team", name)) <= 63
