"""The core is pure: its packages do not wait, read a clock, use randomness or do I/O."""

import ast
from pathlib import Path

import pytest

CORE_PACKAGES = ["api", "decide", "interpret", "plugins", "controllers"]
FORBIDDEN = {"asyncio", "time", "random", "os", "socket", "subprocess", "threading", "sqlite3", "logging"}
SRC = Path(__file__).parents[1] / "src" / "trimtab"
MODULES = [path for package in CORE_PACKAGES for path in sorted((SRC / package).rglob("*.py"))]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_the_core_is_pure(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await)
        assert not FORBIDDEN & {name.split(".")[0] for name in imported_modules(node)}
        if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
            assert not is_datetime(node.value), f"{path}:{node.lineno} reads a clock"


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_every_module_has_a_docstring(path: Path) -> None:
    assert path.name == "__init__.py" or ast.get_docstring(ast.parse(path.read_text()))


def imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def is_datetime(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"datetime", "date"}
