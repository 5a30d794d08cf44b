"""Runs one real control plane in the foreground, for manual experiments with a kube-apiserver."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

from kube.rig import RealControlPlane, RigUnavailable


def exit_on_signal(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kube.up", description=__doc__)
    parser.add_argument("--name", default="oracle")
    parser.add_argument("--controllers", action="store_true", help="run all controllers of a cluster with nodes")
    parser.add_argument("--scheduler", action="store_true", help="bind pods to nodes")
    parser.add_argument(
        "--directory",
        type=Path,
        help="directory of state and logs; default: a temporary one that is removed at the end",
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, exit_on_signal)
    with tempfile.TemporaryDirectory(prefix="trimtab-kube-") as scratch:
        directory = arguments.directory or Path(scratch)
        try:
            with RealControlPlane(
                arguments.name, directory, controllers=arguments.controllers, scheduler=arguments.scheduler
            ) as plane:
                sys.stdout.write(f"{plane.kubeconfig}\n")
                sys.stdout.flush()
                sys.stderr.write(f"{plane.server} is ready; try: {' '.join(plane.kubectl)} get namespaces\n")
                signal.pause()
        except RigUnavailable as fault:
            sys.stderr.write(f"{fault}\n")
            return 1
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
