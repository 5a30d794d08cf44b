from datetime import UTC, datetime

import pytest
from pod_builders import node, pod

from trimtab.cli.commands.reschedule import (
    format_nodes,
    format_plan,
    plan_to_dict,
    read_config_file,
    utilisation_limits,
)
from trimtab.decide.pods.metrics.measurements import UsageMetrics
from trimtab.decide.pods.node_info import build_pod_info
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects
from trimtab.decide.rescheduling.history import ReschedulingHistory
from trimtab.decide.rescheduling.move_simulation import PlannedMove, RejectedMove
from trimtab.decide.rescheduling.plan import ReschedulingPlan
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot
from trimtab.errors import InputError
from trimtab.rescheduling.configuration import read_config

HERE = build_pod_info(pod("web-0", on="a"))
PLAN = ReschedulingPlan(
    (PlannedMove(HERE, "a", "b", "UnderutilisedNodes", 42.0, "a is used to 90 % of its cpu"),),
    (RejectedMove(HERE, "BetterAffinity", 31.0, "the budget web would have 0 disruptions left, 1 must be"),),
    ReschedulingHistory(),
)


def test_plan_shows_what_moves_what_stays_and_why() -> None:
    text = format_plan(PLAN)
    assert "default/web-0   a      b    42 %   UnderutilisedNodes   a is used to 90 % of its cpu" in text
    assert "1 pod moves" in text
    assert "1 pod stays despite a reason to move" in text
    assert plan_to_dict(PLAN)["refused"][0]["reason"].startswith("the budget web")


def test_file_can_have_settings_or_a_descheduler_policy(tmp_path) -> None:
    ours, theirs, bad = tmp_path / "ours.yaml", tmp_path / "theirs.yaml", tmp_path / "bad.yaml"
    ours.write_text("preset: moderate")
    theirs.write_text("kind: DeschedulerPolicy\nprofiles: []")
    bad.write_text("confirmation: 3")
    found = read_config_file(str(ours))
    assert found is not None
    assert found.settings.gain_threshold == 15.0
    policy = read_config_file(str(theirs))
    assert policy is not None
    assert policy.policy is not None
    with pytest.raises(InputError, match="no setting 'confirmation'"):
        read_config_file(str(bad))


def test_nodes_are_shown_with_requests_usage_and_state() -> None:
    settings = read_config({"rescheduler.yaml": "objectives: [{name: UnderutilisedNodes}]"}).settings
    pods = [pod(f"web-{n}", on="a", cpu="1500m", memory="1Gi") for n in range(2)]
    measures = UsageMetrics({"a": {"cpu": 500, "memory": 1 << 30}})
    facts = ClusterObjects([node("a"), node("b"), node("c", cordoned=True)], pods, measures=measures)
    picture = ReschedulingSnapshot(facts, settings, ReschedulingHistory(), datetime(2026, 8, 1, tzinfo=UTC))
    lines = [line.split("   ") for line in format_nodes(picture, utilisation_limits(settings)).splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells[0][1:] == [
        "CPU REQUESTED",
        "MEMORY REQUESTED",
        "CPU USED",
        "MEMORY USED",
        "PODS",
        "SCHEDULABLE",
        "STATE",
    ]
    used = ["12 % (500m of 4)", "12 % (1024Mi of 8192Mi)"]
    assert cells[1] == ["a", "75 % (3 of 4)", "25 % (2048Mi of 8192Mi)", *used, "2 of 10", "yes", "crowded"]
    assert cells[2] == ["b", "0 % (0 of 4)", "0 % (0Mi of 8192Mi)", "?", "?", "0 of 10", "yes", "idle"]
    assert cells[3][-2:] == ["no", "idle"]
    limits = "by requests, a node is idle at or below cpu 30 %, memory 30 %, and crowded above cpu 70 %, memory 70 %"
    assert cells[4] == [limits]
    plain = ReschedulingSnapshot(
        facts._replace(measures=None), settings, ReschedulingHistory(), datetime(2026, 8, 1, tzinfo=UTC)
    )
    assert "USED" not in format_nodes(plain, None)
    assert "STATE" not in format_nodes(plain, None)


def test_table_of_many_nodes_says_how_many_are_left_out() -> None:
    facts = ClusterObjects([node(f"n{number:02}") for number in range(23)], [])
    settings = read_config({}).settings
    picture = ReschedulingSnapshot(facts, settings, ReschedulingHistory(), datetime(2026, 8, 1, tzinfo=UTC))
    short = format_nodes(picture, None).splitlines()
    assert (len(short), short[-1]) == (22, "and 3 nodes with lower requests; -o wide lists all")
    assert len(format_nodes(picture, None, wide=True).splitlines()) == 24
