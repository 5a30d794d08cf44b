"""`trimtab approve`: lists the moves that wait for a person, and releases them."""

from datetime import UTC, datetime

import yaml
from click.testing import CliRunner

from trimtab.api.kinds.work import (
    BindingSpec,
    BindingStatus,
    ObjectReference,
    PendingApproval,
    ResourceBinding,
    TargetCluster,
)
from trimtab.api.value import Meta
from trimtab.cli.commands.approve import command, waiting_lines

WAITING = ResourceBinding(
    metadata=Meta(name="web-deployment", namespace="shop"),
    spec=BindingSpec(
        resource=ObjectReference(api_version="apps/v1", kind="Deployment", namespace="shop", name="web"),
        clusters=(TargetCluster(name="m1", replicas=4),),
    ),
    status=BindingStatus(
        pending_approval=PendingApproval(
            cause="Drain",
            clusters=(TargetCluster(name="m2", replicas=4),),
            since=datetime(2030, 1, 1, tzinfo=UTC),
        )
    ),
)


def test_list_shows_what_would_happen_and_since_when_it_waits() -> None:
    text = "\n".join(waiting_lines([WAITING], "table"))
    assert "shop        deployment/web   Drain   m1:4   m2:4   2030-01-01 00:00:00Z" in text
    assert waiting_lines([WAITING], "wide") == waiting_lines([WAITING], "table")
    assert waiting_lines([], "table") == []


def test_list_has_structured_forms() -> None:
    document = yaml.safe_load("\n".join(waiting_lines([WAITING], "yaml")))
    assert document["items"][0]["status"]["pendingApproval"]["cause"] == "Drain"
    assert waiting_lines([WAITING], "name") == ["resourcebinding/web-deployment"]


def test_names_and_all_exclude_each_other() -> None:
    result = CliRunner().invoke(command, ["deploy/web", "--all"])
    assert result.exit_code == 2
    assert "not both" in result.output
