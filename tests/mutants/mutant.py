"""One entry of the list of safety rules: the rule, the code that implements it, its removal, and the tests that see it."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "trimtab"


class Mutant(NamedTuple):
    """The removal of one safety rule."""

    rule: str
    """What always holds, as a sentence."""
    file: str
    """The module, relative to `src/trimtab`."""
    find: str
    """Code that occurs exactly once in the module; as short as possible, so that edits around it do not matter."""
    replacement: str
    """The same code without the rule."""
    tests: tuple[str, ...]
    """Test files, or single tests, relative to `tests`; at least one of them must fail."""

    @property
    def path(self) -> Path:
        return PACKAGE / self.file

    def problem(self) -> str:
        """Why the entry does not apply any more; empty when it does."""
        if not self.path.exists():
            return f"{self.file} does not exist"
        count = self.path.read_text().count(self.find)
        if count != 1:
            return f"the code to find occurs {count} times in {self.file}: {self.find!r}"
        for test in self.tests:
            file, _, name = test.partition("::")
            path = ROOT / "tests" / file
            if not path.exists() or (name and f"def {name}(" not in path.read_text()):
                return f"tests/{test} does not exist"
        return ""

    def mutated_source(self) -> str:
        return self.path.read_text().replace(self.find, self.replacement)
