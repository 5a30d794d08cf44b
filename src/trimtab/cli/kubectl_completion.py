"""`kubectl_complete-trimtab`: completes `kubectl trimtab ...`, in the way in which kubectl asks its plugins.

kubectl calls it with the words after `kubectl trimtab`; the last one is not finished and may be empty. It prints one completion per
line, with a description after a tab, and at the end what the shell should do: `:4` means that file names do not complete.
"""

import sys
from collections.abc import Sequence

from click.shell_completion import ShellComplete

from trimtab.cli.main import trimtab

NO_FILE_NAMES, FILE_NAMES = 4, 0


def completion_lines(words: Sequence[str]) -> list[str]:
    *finished, incomplete = words or ("",)
    found = ShellComplete(trimtab, {}, "trimtab", "_TRIMTAB_COMPLETE").get_completions(list(finished), incomplete)
    plain = [item for item in found if item.type == "plain"]
    lines = [f"{item.value}\t{item.help}" if item.help else str(item.value) for item in plain]
    return [*lines, f":{FILE_NAMES if len(plain) < len(found) else NO_FILE_NAMES}"]


def main() -> None:
    sys.stdout.write("\n".join(completion_lines(sys.argv[1:])) + "\n")


if __name__ == "__main__":
    main()
