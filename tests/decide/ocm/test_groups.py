import pytest

from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import DecisionGroup, GroupClusterSelector, GroupStrategy
from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement
from trimtab.api.value import Meta
from trimtab.decide.fleet import Fleet
from trimtab.decide.ocm.decision import Misconfigured, OcmDecisionGroup
from trimtab.decide.ocm.groups import decision_pages, group_size, split_into_groups

FLEET = Fleet.of(
    ManagedCluster(metadata=Meta(name=f"c{n}", labels={"canary": "yes"} if n in (1, 4) else {})) for n in range(6)
)
EVERYBODY = list(range(6))


def canary_group(selector: LabelSelector) -> DecisionGroup:
    return DecisionGroup(group_name="canary", group_cluster_selector=GroupClusterSelector(label_selector=selector))


YES = LabelSelector(match_labels={"canary": "yes"})


def test_named_groups_come_first_and_the_rest_is_split_by_size() -> None:
    strategy = GroupStrategy(clusters_per_decision_group=3, decision_groups=(canary_group(YES),))
    assert split_into_groups(EVERYBODY, strategy, FLEET) == (
        (
            OcmDecisionGroup("canary", ["c1", "c4"]),
            OcmDecisionGroup("", ["c0", "c2", "c3"]),
            OcmDecisionGroup("", ["c5"]),
        ),
        "",
    )


def test_without_clusters_there_is_one_empty_group() -> None:
    assert split_into_groups(EVERYBODY[:0], GroupStrategy(), FLEET) == ((OcmDecisionGroup("", []),), "")


def test_an_invalid_selector_keeps_earlier_groups_and_drops_the_rest() -> None:
    odd = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Gt"),))
    strategy = GroupStrategy(decision_groups=(canary_group(YES), canary_group(odd)))
    groups, fault = split_into_groups(EVERYBODY, strategy, FLEET)
    assert groups == (OcmDecisionGroup("canary", ["c1", "c4"]),)
    assert fault == '"Gt" is not a valid label selector operator'


@pytest.mark.parametrize(("wanted", "size"), [(4, 4), (0, 10), (99, 10), ("25%", 3), ("100%", 10), ("1%", 1)])
def test_group_size_is_a_number_or_a_percentage_rounded_up(wanted: int | str, size: int) -> None:
    assert group_size(wanted, 10) == size


def test_a_group_size_without_percent_sign_is_rejected() -> None:
    with pytest.raises(Misconfigured, match="20 invalid type: string is not a percentage"):
        group_size("20", 10)


def test_pages_are_numbered_across_groups_and_hold_at_most_a_hundred() -> None:
    found = list(
        decision_pages(
            "p",
            [
                OcmDecisionGroup("a", [f"c{n:03}" for n in range(150)]),
                OcmDecisionGroup("", ["x"]),
                OcmDecisionGroup("", []),
            ],
        )
    )
    assert [(page.name, page.group, page.group_index, len(page.clusters)) for page in found] == [
        ("p-decision-1", "a", 0, 100),
        ("p-decision-2", "a", 0, 50),
        ("p-decision-3", "", 1, 1),
        ("p-decision-4", "", 2, 0),
    ]
