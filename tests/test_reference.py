import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import reference


def test_generated_files_are_current() -> None:
    assert reference.stale_files() == [], "run `make reference`"
