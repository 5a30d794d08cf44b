"""What the documents list is what there is."""

from pathlib import Path
from typing import get_type_hints

from trimtab.api.profile import Profile

ROOT = Path(__file__).parents[1]


def test_every_switch_is_in_the_table_that_people_read() -> None:
    page = (ROOT / "docs" / "profiles.md").read_text()
    missing = [name for name in get_type_hints(Profile) if name != "name" and f"| `{name}` |" not in page]
    assert missing == []


def test_every_room_is_in_the_plan_of_the_house() -> None:
    plan = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = [path.name for path in (ROOT / "src" / "trimtab").iterdir() if (path / "__init__.py").exists()]
    assert [room for room in rooms if f"`{room}/`" not in plan] == []


def test_no_lock_file_names_an_address() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        assert "://" not in lock.read_text()
