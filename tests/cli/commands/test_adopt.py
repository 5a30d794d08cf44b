"""`trimtab adopt`: what would change is listed, and two control planes never work at once."""

from datetime import UTC, datetime
from pathlib import Path

from cli.commands.test_apiserver import RunningServer
from cli.processes import run_command
from trimtab.runtime.leader_election import micro_time

LEASES = "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases"


def hold_lease(server: RunningServer, name: str) -> None:
    spec = {"holderIdentity": "karmada-1", "leaseDurationSeconds": 3600, "renewTime": micro_time(datetime.now(UTC))}
    server.request("/api/v1/namespaces", {"metadata": {"name": "karmada-system"}})
    server.request(LEASES, {"metadata": {"name": name}, "spec": spec})


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
    assert server.stop() == 0
