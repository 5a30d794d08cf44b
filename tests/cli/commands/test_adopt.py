"""`trimtab adopt`: what would change is listed, and two control planes never work at once."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.commands.test_apiserver import RunningServer
from cli.processes import run_command
from trimtab.cli.commands import adopt
from trimtab.rehearsal.rehearsal import PlacementChange, Rehearsal
from trimtab.runtime.leader_election import micro_time


def hold_lease(server: RunningServer, name: str, namespace: str = "karmada-system") -> None:
    spec = {"holderIdentity": "karmada-1", "leaseDurationSeconds": 3600, "renewTime": micro_time(datetime.now(UTC))}
    server.request("/api/v1/namespaces", {"metadata": {"name": namespace}})
    server.request(
        f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", {"metadata": {"name": name}, "spec": spec}
    )


def test_takeover_is_refused_while_karmada_runs(tmp_path: Path) -> None:
    server = RunningServer(tmp_path)
    kubeconfig = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    free = run_command("adopt", *kubeconfig, "--take-over", "--set", "failover=true")
    assert free.code == 0, free.err
    assert "trimtab controllers" in free.out
    assert "--profile upstream --replace-karmada --set failover=true" in free.out
    hold_lease(server, "karmada-scheduler")
    held = run_command("adopt", *kubeconfig, "--take-over")
    assert held.code == 3
    assert "runs: karmada-system/karmada-scheduler is held by karmada-1" in held.out
    assert run_command("adopt", *kubeconfig).code == 0, "a check is allowed while it runs"
    back = run_command("adopt", *kubeconfig, "--give-back")
    assert back.code == 3
    assert "stop the controllers of Trimtab" in back.out
    hold_lease(server, "trimtab-controllers", "trimtab-system")
    installed = run_command("adopt", *kubeconfig, "--give-back")
    assert "runs: trimtab-system/trimtab-controllers is held by" in installed.out, "the chart puts its Lease there"
    hold_lease(server, "trimtab-controllers", "fleet")
    elsewhere = run_command("adopt", *kubeconfig, "--give-back")
    assert "runs: fleet/trimtab-controllers is held by" in elsewhere.out, "in whichever namespace it runs"
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("options", "code", "installs"),
    [(["--take-over"], 2, False), (["--take-over", "--accept-changes"], 0, True), ([], 2, False)],
)
def test_what_would_change_something_is_not_taken_over_unless_it_is_accepted(
    monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, installs: bool
) -> None:
    moved = PlacementChange("Deployment default/web", {"m1": 2}, {"m2": 2})
    found = adopt.Situation((), ("moves.trimtab.dev",), Rehearsal((), (moved,), (), (), (), is_finished=True))
    answers: list[object] = [found, ["moves.trimtab.dev"]]
    monkeypatch.setattr(adopt, "with_client", lambda *_: answers.pop(0))
    result = CliRunner().invoke(adopt.command, options, standalone_mode=False)
    assert result.return_value == code, result.output
    assert ("installed moves.trimtab.dev" in result.output) == installs
