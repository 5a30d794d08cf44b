"""`make compat`: replays recorded decisions of Karmada, OCM, kube-scheduler and the descheduler; reports differences.

The family of a file is in its name: `k8s-sched.jsonl.gz`, `more-karmada-scheduling-7.jsonl.gz`.
"""

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from compat import families  # noqa: E402 - the tests directory has to be importable first

GOLDEN = HERE / "golden"


def runners() -> dict[str, ModuleType]:
    """Runner modules by file name prefix, longest first so that the most specific prefix matches."""
    found: dict[str, ModuleType] = {}
    for info in pkgutil.iter_modules(families.__path__):
        module = importlib.import_module(f"{families.__name__}.{info.name}")
        for name in getattr(module, "FILES", (info.name.replace("_", "-"),)):
            found[name] = module
    return dict(sorted(found.items(), key=lambda entry: -len(entry[0])))


def family_of(path: Path, known: dict[str, ModuleType]) -> ModuleType:
    for name, module in known.items():
        if name in path.name:
            return module
    prefix = path.name.split("-")[0]
    raise SystemExit(f"{path}: unknown family of cases ({prefix}…); known: {', '.join(sorted(known))}")


def outcomes(path: Path, module: ModuleType) -> Iterator[tuple[str, bool, str]]:
    if not path.exists():
        raise SystemExit(f"{path}: no such file")
    yield from module.run(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="files of recorded cases; default: all")
    files: list[Path] = parser.parse_args().files or sorted(GOLDEN.glob("*.jsonl.gz"))
    known = runners()
    passed = failed = 0
    for path in files:
        good = bad = 0
        for name, ok, difference in outcomes(path, family_of(path, known)):
            good += ok
            bad += not ok
            if not ok:
                print(f"FAIL {path.name} {name}: {difference}")
        print(f"{path.name}: {good} of {good + bad}", flush=True)
        passed += good
        failed += bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
