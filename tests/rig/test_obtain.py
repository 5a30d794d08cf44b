"""`make kube` reports what is missing, keeps usable binaries, and resumes where it stopped."""

import subprocess
import sys
from pathlib import Path

import pytest

OBTAIN = Path(__file__).parents[2] / "rig" / "obtain.py"
KUBERNETES = next(
    line.split()[1] for line in (OBTAIN.parent / "go.mod").read_text().splitlines() if "k8s.io/kubernetes v" in line
)
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
FINISHED = f"#!/bin/sh\necho etcd Version: 3.5 Kubernetes {KUBERNETES}\n"
# Builds a script that prints the expected versions.
GO = f"""#!/bin/sh
case $1 in
  build) while [ "$1" != -o ]; do shift; done
    echo compiling; printf '%s\\n' '#!/bin/sh' 'echo etcd Version: 3.5 Kubernetes {KUBERNETES}' > "$2"; /bin/chmod +x "$2";;
  env) echo https://registry.example;;
esac
"""
OFFLINE_GO = """#!/bin/sh
[ "$1" = env ] && { echo https://registry.example; exit; }
echo "dial tcp: no route to host"; exit 1
"""


class FakeMachine:
    """A home, cache and PATH for the test, so that nothing real is built or found."""

    def __init__(self, root: Path) -> None:
        self.tools = root / "tools"
        self.tools.mkdir()
        self.cache = root / "cache"
        self.binaries = self.cache / "trimtab" / f"kube-{KUBERNETES[1:]}" / "bin"
        self.environment = {
            "PATH": str(self.tools),
            "HOME": str(root),
            "XDG_CACHE_HOME": str(self.cache),
        }

    def write_script(self, directory: Path, name: str, script: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(script)
        (directory / name).chmod(0o755)

    def obtain(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, OBTAIN, *arguments],
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def test_missing_go_is_reported(machine: FakeMachine) -> None:
    completed = machine.obtain()
    assert completed.returncode == 1
    assert "Go is not installed" in completed.stderr


def test_unreachable_module_registry_is_named(machine: FakeMachine) -> None:
    machine.write_script(machine.tools, "go", OFFLINE_GO)
    completed = machine.obtain()
    assert completed.returncode == 1
    assert "GOPROXY=https://registry.example" in completed.stderr
    assert "no route to host" in completed.stderr


def test_binaries_are_built_once(machine: FakeMachine) -> None:
    machine.write_script(machine.tools, "go", GO)
    first, second = machine.obtain(), machine.obtain()
    assert first.returncode == second.returncode == 0, first.stderr
    assert [name for name in NAMES if f"Building {name} " in first.stdout] == list(NAMES)
    assert "Building" not in second.stdout
    assert f"KUBEBUILDER_ASSETS={machine.binaries}" in second.stdout


def test_only_missing_or_broken_binaries_are_built(machine: FakeMachine) -> None:
    machine.write_script(machine.tools, "go", GO)
    for name in NAMES:
        machine.write_script(machine.binaries, name, FINISHED)
    machine.write_script(machine.binaries, "kube-scheduler", "#!/bin/sh\nexit 3\n")
    (machine.binaries / "kubectl").unlink()
    completed = machine.obtain()
    assert completed.returncode == 0, completed.stderr
    assert [name for name in NAMES if f"Building {name} " in completed.stdout] == ["kube-scheduler", "kubectl"]


def test_given_binaries_are_used_unchanged(machine: FakeMachine, tmp_path: Path) -> None:
    given = tmp_path / "given"
    for name in NAMES:
        machine.write_script(given, name, "#!/bin/sh\necho another release\n")
    completed = machine.obtain(KUBEBUILDER_ASSETS=str(given))
    assert completed.returncode == 0, completed.stderr
    assert f"KUBEBUILDER_ASSETS={given}" in completed.stdout
    assert not machine.cache.exists()


def test_check_builds_nothing_and_names_missing_binaries(machine: FakeMachine) -> None:
    for name in NAMES[1:]:
        machine.write_script(machine.binaries, name, FINISHED)
    completed = machine.obtain("--check")
    assert completed.returncode == 1
    assert completed.stderr.strip() == f"In {machine.binaries}: etcd is missing"


def test_other_version_has_its_own_directory(machine: FakeMachine) -> None:
    completed = machine.obtain("--check", KUBE="1.31")
    assert completed.returncode == 1
    assert "trimtab/kube-1.31." in completed.stderr
    default = machine.obtain("--check", KUBE=".".join(KUBERNETES[1:].split(".")[:2]))
    assert str(machine.binaries) in default.stderr


def test_unknown_version_is_reported(machine: FakeMachine) -> None:
    completed = machine.obtain("--check", KUBE="1.7")
    assert completed.returncode == 1
    assert completed.stderr.strip() == "KUBE=1.7: the rig has no such version; besides the default it has 1.31"
