import pytest

from trimtab.api.kinds.policy import AddOnScore, PrioritizerConfig, PrioritizerPolicy, ScoreCoordinate
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.request import weighted_prioritizers
from trimtab.plugins import load

load()
COST = AddOnScore(resource_name="r", score_name="s")


def built_in(name: str, weight: int | None = 1, add_on: AddOnScore | None = None) -> PrioritizerConfig:
    coordinate = ScoreCoordinate(type="BuiltIn", built_in=name, add_on=add_on)
    return PrioritizerConfig(score_coordinate=coordinate, weight=weight)


def add_on(weight: int, score: AddOnScore | None = COST) -> PrioritizerConfig:
    return PrioritizerConfig(score_coordinate=ScoreCoordinate(type="AddOn", add_on=score), weight=weight)


def weights(mode: str, *configurations: PrioritizerConfig) -> list[tuple[str, int]]:
    policy = PrioritizerPolicy(mode=mode, configurations=configurations)
    return [(one.name, one.weight) for one in weighted_prioritizers(policy)]


def test_additive_keeps_the_defaults_and_exact_uses_only_configured_scores() -> None:
    assert weights("Additive", add_on(3)) == [("Balance", 1), ("Steady", 1), ("AddOn/r/s", 3)]
    assert weights("Exact", add_on(3)) == [("AddOn/r/s", 3)]
    assert weights("") == [("Balance", 1), ("Steady", 1)]
    assert weights("Exact") == []


def test_the_last_entry_of_a_built_in_counts_and_weight_zero_removes_it() -> None:
    assert weights("Exact", built_in("Steady", 2), built_in("Steady", 5)) == [("Steady", 5)]
    assert weights("Additive", built_in("Balance", 0)) == [("Steady", 1)]
    assert weights("Exact", built_in("Nope", 0)) == []


def test_two_entries_for_an_add_on_add_up_even_when_they_are_the_same() -> None:
    assert weights("Exact", add_on(1), add_on(1)) == [("AddOn/r/s", 1), ("AddOn/r/s", 1)]
    both = weights("Additive", built_in("Balance", 4, add_on=COST))
    assert both == [("Balance", 1), ("Steady", 1), ("Balance", 4)]


def test_the_default_weight_is_one() -> None:
    assert weights("Exact", built_in("Steady", None)) == [("Steady", 1)]


@pytest.mark.parametrize(
    ("mode", "config", "text"),
    [
        ("exact", built_in("Steady"), "incorrect prioritizer policy mode: exact"),
        ("Exact", built_in("steady"), "incorrect builtin prioritizer: steady"),
        ("Exact", built_in("AddOn"), "incorrect builtin prioritizer: AddOn"),
        ("Exact", add_on(1, None), "addOn should not be empty"),
        ("Exact", PrioritizerConfig(weight=1), "scoreCoordinate field is required"),
    ],
)
def test_a_configuration_without_a_valid_score_is_rejected(mode: str, config: PrioritizerConfig, text: str) -> None:
    with pytest.raises(Misconfigured) as refusal:
        weights(mode, config)
    assert (refusal.value.plugin, refusal.value.message) == ("", text)
