"""Finds the Chromium that tests the console; with --install it is installed by apt when it is missing."""

import argparse
import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")
BANNER = "=" * 78


def find() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def install() -> None:
    """Install Debian's package; needs root and apt-get."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return
    options = ["-o", "DPkg::Lock::Timeout=600"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.run([apt, *options, "install", "-y", "chromium"], env=environment, check=False).returncode:
        subprocess.run([apt, "update"], env=environment, check=False)
        subprocess.run([apt, *options, "install", "-y", "chromium"], env=environment, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true", help="install it when it is missing; fail when that fails")
    arguments = parser.parse_args()
    if arguments.install and find() is None:
        install()
    if (path := find()) is not None:
        print(f"Chromium: {path}")
        return 0
    print(
        f"{BANNER}\nNO CHROMIUM: the console is not tested in a browser.\n"
        f"Install it with: apt-get install chromium\n{BANNER}",
        file=sys.stderr,
    )
    return 1 if arguments.install else 0


if __name__ == "__main__":
    sys.exit(main())
