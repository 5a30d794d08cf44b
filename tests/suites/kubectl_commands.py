"""Kubernetes' `test/cmd`: the scripts that check kubectl against a cluster without scheduler and kubelets.

The scripts are read from the Go module of Kubernetes. `kubectl_commands.sh` runs their functions one after the other.
"""

import os
import re
import shutil
from pathlib import Path

import obtain_suites
import yaml
from obtain import MODULE, command_output, go_command
from suites.peer_suite import run_to_end
from suites.processes import RunningFleet, start_fleet
from suites.specs import FAILED, PASSED, SpecResult

PART = "kubernetes/cmd"
SCRIPT = Path(__file__).with_suffix(".sh")
MINUTES = 60
TOKEN = "admin-token"
FLEET = {
    "members": [{"name": "member1", "nodes": 0}],
    "scheduler": "none",
    "anonymousAuth": False,
    "disableAdmissionPlugins": ["DefaultStorageClass", "DefaultTolerationSeconds", "ServiceAccount"],
}
"""What the scripts start for themselves: an API server without these plugins, controllers, and nothing that runs pods."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\(B")


def module_directory() -> Path:
    command = [go_command(), "list", "-m", "-f", "{{.Dir}}", obtain_suites.KUBERNETES]
    return Path(next(iter(command_output(command, MODULE))))


def functions_of(module: Path) -> list[str]:
    """The functions in the order in which the scripts run them."""
    text = (module / "test" / "cmd" / "legacy-script.sh").read_text()
    return re.findall(r"^\s*record_command (run_\w+)$", text, re.MULTILINE)


def link_module(module: Path, root: Path) -> None:
    """A directory with the files of the module, in which the scripts may write."""
    root.mkdir(parents=True, exist_ok=True)
    for path in module.iterdir():
        if path.is_dir() and path.name != "test":
            (root / path.name).symlink_to(path)
    (root / "test").mkdir()
    for path in (module / "test").iterdir():
        if path.name != "fixtures":
            (root / "test" / path.name).symlink_to(path)
    shutil.copytree(module / "test" / "fixtures", root / "test" / "fixtures", copy_function=shutil.copyfile)
    for path in (root / "test" / "fixtures").rglob("kubectl-*"):
        path.chmod(0o755)  # a module has no executable files


def link_programs(directory: Path) -> None:
    """kubectl and its plugin in one directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for program in ("kubectl", "kubectl-convert"):
        (directory / program).symlink_to(obtain_suites.SUITES["kubernetes"].directory / program)


def environment(fleet: RunningFleet, directory: Path) -> dict[str, str]:
    """Temporary files of their own, with the certificate of the server where the scripts expect it."""
    scratch = directory / "tmp"
    scratch.mkdir(exist_ok=True)
    shutil.copyfile(fleet.kubeconfig.parent / "pki" / "server.crt", scratch / "apiserver.crt")
    inherited = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    # the server has the minor version of kubectl, not its patch version
    return {**inherited, "TMPDIR": str(scratch), "ALLOW_SKEW": "1"}


def port_of_member(fleet: RunningFleet) -> str:
    clusters = yaml.safe_load(fleet.kubeconfig.read_text())["clusters"]
    (server,) = (one["cluster"]["server"] for one in clusters if one["name"] == "member1")
    return str(server).rpartition(":")[2]


def run_kubectl_commands(directory: Path, focus: str) -> list[SpecResult]:
    module = module_directory()
    functions = [name for name in functions_of(module) if re.search(focus, name)]
    link_module(module, directory / "root")
    link_programs(directory / "bin")
    token = directory / "data" / "pki" / "admin.token"
    token.parent.mkdir(parents=True, mode=0o700)
    token.write_text(TOKEN)
    (directory / "fleet.yaml").write_text(yaml.safe_dump(FLEET))
    results = directory / "functions.tsv"
    with start_fleet(directory, f"--fleet={directory / 'fleet.yaml'}") as fleet:
        command = ["bash", str(SCRIPT), str(module), str(directory / "bin"), port_of_member(fleet), str(results)]
        given = functions if focus else []
        run_to_end(
            [*command, *given], environment(fleet, directory), directory / "suite.log", MINUTES * 60, directory / "root"
        )
    return read_results(functions, results)


def read_results(functions: list[str], path: Path) -> list[SpecResult]:
    """The result of each function; one that the scripts did not reach has failed."""
    rows = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
    found = {
        name: SpecResult(PART, name, PASSED, seconds=float(seconds))
        if code == "0"
        else SpecResult(PART, name, FAILED, last_words(path.parent / f"{name}.log"), float(seconds))
        for name, code, seconds in rows
    }
    return [
        found.get(name, SpecResult(PART, name, FAILED, "the scripts ended before this function")) for name in functions
    ]


def last_words(log: Path) -> str:
    """The end of a log without colours and call trees."""
    lines = [_COLOURS.sub("", line) for line in log.read_text(errors="replace").splitlines()]
    return " ".join(line for line in lines if line.strip() and not line.startswith("!!!"))[-400:]
