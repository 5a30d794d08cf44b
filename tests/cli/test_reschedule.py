import pytest

from pod_builders import pod
from trimtab.cli.reschedule import config_from, shown, told
from trimtab.decide.pods.host import resident
from trimtab.decide.reschedule.history import History
from trimtab.decide.reschedule.plan import Plan
from trimtab.decide.reschedule.round import Move, Refused
from trimtab.errors import InputFault

HERE = resident(pod("web-0", on="a"))
FOUND = Plan(
    (Move(HERE, "a", "b", "UnderutilisedNodes", 42.0, "a is used to 90 % of its cpu"),),
    (Refused(HERE, "BetterAffinity", 31.0, "the budget web would have 0 disruptions left, 1 must be"),),
    History(),
)


def test_a_plan_tells_what_moves_and_what_stays_and_why() -> None:
    text = told(FOUND)
    assert "default/web-0   a      b    42 %   UnderutilisedNodes   a is used to 90 % of its cpu" in text
    assert "1 pod moves" in text
    assert "1 pod stays, although there is a reason to move" in text
    assert shown(FOUND)["refused"][0]["reason"].startswith("the budget web")


def test_a_file_may_be_ours_or_the_deschedulers(tmp_path) -> None:
    ours, theirs, bad = tmp_path / "ours.yaml", tmp_path / "theirs.yaml", tmp_path / "bad.yaml"
    ours.write_text("preset: moderate")
    theirs.write_text("kind: DeschedulerPolicy\nprofiles: []")
    bad.write_text("confirmation: 3")
    found = config_from(str(ours))
    assert found is not None
    assert found.settings.gain_threshold == 15.0
    policy = config_from(str(theirs))
    assert policy is not None
    assert policy.policy is not None
    with pytest.raises(InputFault, match="no setting 'confirmation'"):
        config_from(str(bad))
