"""Sets up .venv from the locked requirements: `environment.py run` for what running needs, `dev` for development.

With uv this takes a few seconds. Without it, pip installs: the pip of the calling Python, so that .venv needs none of its own,
and without compiling everything in advance, as most of it is never imported.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - it is what this script tells
    sys.exit(f"Trimtab needs Python 3.11 or newer; {sys.executable} is older. Try: make PYTHON=python3.12")

ROOT = Path(__file__).parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
OLDEST_PIP = (22, 3)
"""The first pip that installs into another environment."""
LAUNCHER = """#!{python}
import sys

from trimtab.cli.main import main

sys.exit(main())
"""


def locked_packages(requirements: Path) -> int:
    return len(re.findall(r"^\S+==", requirements.read_text(encoding="utf-8"), re.MULTILINE))


def has_pip() -> bool:
    """Whether the calling Python has a pip that installs into another environment."""
    try:
        found = version("pip")
    except PackageNotFoundError:
        return False
    return tuple(int(part) for part in found.split(".")[:2]) >= OLDEST_PIP


def create(uv: str | None) -> None:
    if uv:
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, VENV], check=True)
        return
    without_pip = ["--without-pip"] if has_pip() else []
    subprocess.run([sys.executable, "-m", "venv", "--clear", *without_pip, VENV], check=True)


def install(uv: str | None, *arguments: str) -> None:
    """Install, with the number of packages collected so far on a terminal."""
    if uv:
        subprocess.run([uv, "pip", "install", "--quiet", "--python", PYTHON, *arguments], check=True)
        return
    own = (VENV / "bin" / "pip").exists()
    pip = [str(PYTHON), "-m", "pip"] if own else [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    options = ["--disable-pip-version-check", "--no-compile", "--progress-bar", "off"]
    command = [*pip, "install", *options, *arguments]
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            show_progress(line, sum(one.startswith("Collecting ") for one in lines))
    if sys.stdout.isatty():
        print("\r\033[K", end="")
    if process.returncode:
        sys.exit("".join(lines))


def show_progress(line: str, collected: int) -> None:
    if not sys.stdout.isatty():
        return
    if line.startswith("Collecting "):
        print(f"\r\033[K    {collected} {line.split()[1].partition('==')[0]}", end="", flush=True)
    elif line.startswith("Installing collected packages"):
        print("\r\033[K    writing files", end="", flush=True)


def link_package() -> None:
    """Make the source importable, and write the commands that start it."""
    purelib = Path(sysconfig.get_path("purelib", "venv", {"base": str(VENV), "platbase": str(VENV)}))
    (purelib / "trimtab-source.pth").write_text(f"{ROOT / 'src'}\n", encoding="utf-8")
    for name in ("trimtab", "kubectl-trimtab"):
        path = VENV / "bin" / name
        path.write_text(LAUNCHER.format(python=PYTHON), encoding="utf-8")
        path.chmod(0o755)


def write_byte_code() -> None:
    """Write the byte code of the commands where the environment tells Python to write none, as many container images do.

    Each command would compile its modules anew otherwise, which takes longer than the command.
    """
    if sys.dont_write_bytecode:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
        command = [VENV / "bin" / "trimtab", "--help"]  # it imports every command
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


def set_up_to_run(uv: str | None) -> None:
    requirements = ROOT / "requirements" / "core.txt"
    print("1/3 creating .venv", flush=True)
    create(uv)
    print(f"2/3 installing up to {locked_packages(requirements)} packages", flush=True)
    install(uv, "--no-deps", "--require-hashes", "-r", str(requirements))
    print("3/3 linking Trimtab", flush=True)
    link_package()
    write_byte_code()
    print(f'The command is .venv/bin/trimtab. To call it by name: export PATH="{VENV / "bin"}:$PATH"', flush=True)


def set_up_for_development(uv: str | None) -> None:
    requirements = ROOT / "requirements" / "dev.txt"
    print(f"installing {locked_packages(requirements)} packages for development (once; about a minute)", flush=True)
    install(uv, "--no-deps", "--require-hashes", "-r", str(requirements))
    install(uv, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))


def main() -> None:
    uv = shutil.which("uv")
    if sys.argv[1] == "run":
        set_up_to_run(uv)
    else:
        set_up_for_development(uv)


if __name__ == "__main__":
    main()
