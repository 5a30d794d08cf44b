"""Records in a built package the commit that it was built from, for `trimtab version`."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILE = "trimtab/commit.txt"


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the file with the commit; a source distribution contains it already."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, except to an editable installation, which runs whatever the tree contains."""
        if version == "editable" or not (Path(self.root) / ".git").exists():
            return
        command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        shown = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        if shown.returncode:
            return
        path = Path(tempfile.mkdtemp(prefix="trimtab-build-")) / "commit.txt"
        path.write_text(shown.stdout)
        prefix = "src/" if self.target_name == "sdist" else ""
        build_data["force_include"][str(path)] = prefix + FILE
