"""Stands in for docker where a suite creates clusters with kind: every "node container" is a simulated cluster.

The suite calls kind as a library, and kind runs docker commands. The state is a directory per container below
`TRIMTAB_CONTAINERS`: its labels, its address and the process that serves the cluster.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

CLUSTER = Path(__file__).with_name("cluster.py")
CLUSTER_LABEL = "io.x-k8s.kind.cluster"
FILES = {"/kind/version": "v1.32.2\n", "/kind/manifests/default-cni.yaml": "{}\n"}
INFO = {"CgroupDriver": "systemd", "CgroupVersion": "2", "MemoryLimit": True, "PidsLimit": True, "CPUShares": True}
NETWORK = {"Id": "kind", "Name": "kind", "Containers": {}}
SECONDS_TO_START = 60


class Container:
    """One container: a directory that keeps what `docker inspect` reports."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.name = directory.name

    @property
    def state(self) -> dict[str, str]:
        return json.loads((self.directory / "state.json").read_text())

    def start(self, labels: dict[str, str], address: str) -> None:
        self.directory.mkdir(parents=True)
        with (self.directory / "log").open("wb") as log:
            running = subprocess.Popen(
                [sys.executable, str(CLUSTER), self.name, str(self.directory), "--address", address],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        (self.directory / "state.json").write_text(json.dumps({**labels, "address": address, "pid": running.pid}))
        begun = time.monotonic()
        while not (self.directory / "kubeconfig").exists():
            if running.poll() is not None or time.monotonic() - begun > SECONDS_TO_START:
                raise SystemExit(f"the cluster did not start:\n{(self.directory / 'log').read_text()[-1000:]}")
            time.sleep(0.1)

    def remove(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(self.state["pid"]), signal.SIGTERM)
        self.directory.rename(self.directory.with_name(f".removed-{self.name}"))


class Docker:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def containers(self) -> list[Container]:
        return [Container(path) for path in sorted(self._directory.iterdir()) if not path.name.startswith(".")]

    def run(self, arguments: list[str]) -> str:
        """The output of a command; commands that need no answer have an empty one."""
        command, *rest = arguments
        if command == "-v":
            return "Docker version 27.0.0, build simulated\n"
        handler = {
            "info": self._info,
            "network": self._network,
            "run": self._run,
            "ps": self._ps,
            "inspect": self._inspect,
            "exec": self._exec,
            "logs": lambda _: "Reached target Multi-User System.\n",
            "rm": self._rm,
        }.get(command, lambda _: "")
        return handler(rest)

    def _info(self, rest: list[str]) -> str:
        text = rest[-1] if rest else ""
        if "SecurityOptions" in text:
            return "'[]'\n"
        return "overlay2\n" if ".Driver" in text else json.dumps(INFO) + "\n"

    def _network(self, rest: list[str]) -> str:
        if rest[0] == "ls":
            return "kind\n"
        if rest[0] == "inspect":
            return "127.0.0.0/8 \n" if "-f" in rest else json.dumps([NETWORK])
        return ""

    def _run(self, rest: list[str]) -> str:
        name = rest[rest.index("--name") + 1]
        pairs = [rest[at + 1].partition("=") for at, flag in enumerate(rest) if flag == "--label"]
        used = sum(1 for _ in self._directory.iterdir())
        address = f"127.18.{own_subnet(self._directory)}.{used + 2}"
        Container(self._directory / name).start({key: value for key, _, value in pairs}, address)
        return "container\n"

    def _ps(self, rest: list[str]) -> str:
        wanted = rest[rest.index("--filter") + 1].removeprefix("label=")
        label, _, value = wanted.partition("=")
        found = [one for one in self.containers if label in one.state and value in ("", one.state[label])]
        names = [one.name if ".Names" in rest[-1] else one.state[label] for one in found]
        return "".join(f"{name}\n" for name in names)

    def _inspect(self, rest: list[str]) -> str:
        if "--type=image" in rest:
            return "[]"
        text, name = rest[-2], rest[-1]
        state = Container(self._directory / name).state
        if "Config.Labels" in text:
            return next((value for label, value in state.items() if f'"{label}"' in text), "") + "\n"
        if "NetworkSettings.Ports" in text:
            return f"{state['address']}\t6443\n"
        return state["address"] + ("," if "GlobalIPv6Address" in text else "") + "\n"

    def _exec(self, rest: list[str]) -> str:
        at = next(i for i, one in enumerate(rest) if (self._directory / one).exists())
        name, command = rest[at], rest[at + 1 :]
        if "-i" in rest[:at]:
            sys.stdin.buffer.read()
        if command[:1] != ["cat"]:
            return ""
        if command[1] == "/etc/kubernetes/admin.conf":
            return (self._directory / name / "kubeconfig").read_text()
        return FILES.get(command[1], "")

    def _rm(self, rest: list[str]) -> str:
        for name in rest:
            if not name.startswith("-"):
                Container(self._directory / name).remove()
        return ""


def own_subnet(directory: Path) -> int:
    """A number from the directory, so that areas that run at the same time have other addresses."""
    return zlib.crc32(str(directory).encode()) % 255


def main() -> None:
    sys.stdout.write(Docker(Path(os.environ["TRIMTAB_CONTAINERS"])).run(sys.argv[1:]))


if __name__ == "__main__":
    main()
