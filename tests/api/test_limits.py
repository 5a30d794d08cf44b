"""The page about security lists every limit with its number."""

import re
from pathlib import Path

from trimtab.api import limits

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "security.md"


def test_page_lists_every_limit() -> None:
    listed = {name: float(number) for number, name in re.findall(r"\| (\d+) \| `(\w+)` \|", PAGE.read_text())}
    assert listed == {name: float(value) for name, value in vars(limits).items() if name.isupper()}
