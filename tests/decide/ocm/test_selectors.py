import pytest

from trimtab.api.kinds.ocm_clusters import (
    ManagedCluster,
    ManagedClusterClaim,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetSpec,
    ManagedClusterStatus,
)
from trimtab.api.kinds.ocm_placement import ClaimSelectorRequirement, ClusterClaimSelector, GroupClusterSelector
from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement
from trimtab.api.value import Meta
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.selectors import claim_rules, label_rules, matcher_of, set_matcher

PROD = ManagedCluster(
    metadata=Meta(name="a", labels={"env": "prod"}),
    status=ManagedClusterStatus(
        cluster_claims=(
            ManagedClusterClaim(name="platform", value="AWS"),
            ManagedClusterClaim(name="platform", value="GCP"),
        )
    ),
)


def labels(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),))


def claims(key: str, operator: str, *values: str) -> ClusterClaimSelector:
    rule = ClaimSelectorRequirement(key=key, operator=operator, values=values)
    return ClusterClaimSelector(match_expressions=(rule,))


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        (labels("env", "In", "prod", "dev"), True),
        (labels("env", "NotIn", "prod"), False),
        (labels("none", "NotIn", "prod"), True),
        (labels("env", "Exists"), True),
        (labels("env", "DoesNotExist"), False),
        (LabelSelector(), True),
        (LabelSelector(match_labels={"env": "dev"}), False),
    ],
)
def test_label_selectors_match_as_in_kubernetes(selector: LabelSelector, fits: bool) -> None:
    assert matcher_of(GroupClusterSelector(label_selector=selector))(PROD) is fits


def test_of_two_claims_with_one_name_the_last_counts() -> None:
    assert matcher_of(GroupClusterSelector(claim_selector=claims("platform", "In", "GCP")))(PROD)
    assert not matcher_of(GroupClusterSelector(claim_selector=claims("platform", "In", "AWS")))(PROD)


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (labels("env", "Gt", "1"), '"Gt" is not a valid label selector operator'),
        (
            labels("env", "In"),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            labels("env", "Exists", "v"),
            'values: Invalid value: ["v"]: values set must be empty for exists and does not exist',
        ),
    ],
)
def test_an_invalid_selector_is_rejected_with_the_message_of_kubernetes(selector: LabelSelector, text: str) -> None:
    with pytest.raises(Misconfigured) as refusal:
        label_rules(selector)
    assert refusal.value.message == text


def test_claim_values_must_be_label_values_although_claims_need_not() -> None:
    with pytest.raises(Misconfigured, match=r"values\[0\]\[url\]: Invalid value: \"https://x\": a valid label must"):
        claim_rules(claims("url", "In", "https://x"))
    with pytest.raises(Misconfigured, match="must be no more than 63 bytes"):
        claim_rules(claims("url", "In", "x" * 64))


def test_a_set_with_an_unknown_selector_type_is_misconfigured() -> None:
    odd = ManagedClusterSetSpec(cluster_selector=ManagedClusterSelector(selector_type="Odd"))
    with pytest.raises(Misconfigured):
        set_matcher(ManagedClusterSet(metadata=Meta(name="s"), spec=odd))
