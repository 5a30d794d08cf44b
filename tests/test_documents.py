"""The documents are complete."""

import re
from pathlib import Path
from typing import get_type_hints

from trimtab.api.profile import Profile

ROOT = Path(__file__).parents[1]


def test_every_profile_switch_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "profiles.md").read_text()
    missing = [name for name in get_type_hints(Profile) if name != "name" and f"| `{name}` |" not in page]
    assert missing == []


def test_every_package_is_in_the_architecture_document() -> None:
    document = (ROOT / "ARCHITECTURE.md").read_text()
    packages = [path.name for path in (ROOT / "src" / "trimtab").iterdir() if (path / "__init__.py").exists()]
    assert [name for name in packages if f"`{name}/`" not in document] == []


def test_lock_files_contain_no_urls() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        assert "://" not in lock.read_text()


def test_design_documents_are_answered_with_stories_that_exist() -> None:
    page = (ROOT / "docs" / "explanation" / "design-documents.md").read_text()
    named = set(re.findall(r"stories/(00\d-[a-z0-9-]+)\.yaml", page))
    assert named == {path.stem for path in (ROOT / "stories").glob("00*.yaml")}
