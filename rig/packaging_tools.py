#!/usr/bin/env python3
"""Obtains the tools that test charts, rules and images: helm and promtool, into a cache.

python3 rig/packaging_tools.py           build or fetch what is missing
python3 rig/packaging_tools.py --check   print the folder, or exit with 1 and say what is missing
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HELM = "helm.sh/helm/v3/cmd/helm@v3.19.0"
DEBIAN_PROMETHEUS = "prometheus"


def tools_directory() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "trimtab" / "tools" / "bin"


def find_tool(name: str) -> Path | None:
    """The tool in the cache, else on the PATH."""
    cached = tools_directory() / name
    if cached.exists():
        return cached
    found = shutil.which(name)
    return Path(found) if found else None


def missing_tools() -> list[str]:
    return [name for name in ("helm", "promtool", "mmdebstrap") if find_tool(name) is None]


def build_helm() -> None:
    """Build helm from its published Go module."""
    environment = {**os.environ, "GOBIN": str(tools_directory()), "GOFLAGS": "-buildvcs=false"}
    subprocess.run(["go", "install", "-trimpath", "-ldflags=-s -w", HELM], env=environment, check=True)


def fetch_promtool() -> None:
    """Take promtool out of Debian's package, without installing the server."""
    with tempfile.TemporaryDirectory(prefix="trimtab-tools-") as folder:
        subprocess.run(["apt-get", "download", DEBIAN_PROMETHEUS], cwd=folder, check=True)
        package = next(Path(folder).glob("*.deb"))
        subprocess.run(["dpkg", "-x", str(package), folder], check=True)
        shutil.copy2(Path(folder) / "usr" / "bin" / "promtool", tools_directory() / "promtool")


def install_mmdebstrap() -> None:
    subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", "mmdebstrap"], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="obtain nothing")
    if parser.parse_args().check:
        missing = missing_tools()
        print(f"missing: {', '.join(missing)}; run `make packaging-tools`" if missing else tools_directory())
        return 1 if missing else 0
    tools_directory().mkdir(parents=True, exist_ok=True)
    obtain = {"helm": build_helm, "promtool": fetch_promtool, "mmdebstrap": install_mmdebstrap}
    for name in missing_tools():
        print(f"obtaining {name}", flush=True)
        obtain[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
