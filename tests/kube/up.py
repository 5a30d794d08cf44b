"""Runs one real control plane in the foreground, for anyone who wants to ask a kube-apiserver a question."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

from kube.rig import ControlPlane, Unavailable


def leave(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kube.up", description=__doc__)
    parser.add_argument("--name", default="oracle")
    parser.add_argument("--controllers", action="store_true", help="every controller, as a cluster with nodes has")
    parser.add_argument("--scheduler", action="store_true", help="bind pods to nodes")
    parser.add_argument(
        "--directory", type=Path, help="where to keep state and logs; else a temporary one, removed at the end"
    )
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, leave)
    with tempfile.TemporaryDirectory(prefix="trimtab-kube-") as scratch:
        directory = asked.directory or Path(scratch)
        try:
            with ControlPlane(asked.name, directory, controllers=asked.controllers, scheduler=asked.scheduler) as plane:
                sys.stdout.write(f"{plane.kubeconfig}\n")
                sys.stdout.flush()
                sys.stderr.write(f"{plane.server} is ready; try: {' '.join(plane.kubectl)} get namespaces\n")
                signal.pause()
        except Unavailable as fault:
            sys.stderr.write(f"{fault}\n")
            return 1
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
