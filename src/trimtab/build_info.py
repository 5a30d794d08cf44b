"""What the build of the package left in it."""

import pkgutil
from functools import cache


@cache
def built_commit() -> str:
    """The commit in a built package; empty in an editable installation."""
    try:
        text = pkgutil.get_data("trimtab", "commit.txt")
    except FileNotFoundError:
        return ""
    return (text or b"").decode().strip()
