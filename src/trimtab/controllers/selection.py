"""Which controllers a process runs: `a,b` only these, `*,-c` or `-c` all but this one."""

from collections.abc import Callable, Collection
from difflib import get_close_matches

from trimtab.controllers.contract import Controller, View
from trimtab.errors import InputError

IsEnabled = Callable[[Controller], bool]
EVERY = "*"
RUNNING = "running controllers"
"""In the settings of a process: the names of the controllers that it runs."""
RESUMED = "resumed from saved caches"
"""In the settings of a process: controllers that `resume` did not reconcile every subject when it started."""


def select_controllers(text: str, names: Collection[str]) -> IsEnabled:
    """Parse the option `--controllers`; raises `InputError` for a name that no controller has."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    wanted = {_find_name(word, names) for word in words if word != EVERY and not word.startswith("-")}
    unwanted = {_find_name(word[1:], names) for word in words if word.startswith("-")}
    runs_every = EVERY in words or not wanted
    return lambda one: one.name not in unwanted and (runs_every or one.name in wanted)


def runs_here(controller: str, view: View) -> bool:
    """Whether this controller runs in the same process."""
    return controller in view.settings.get(RUNNING, ())


def _find_name(word: str, names: Collection[str]) -> str:
    name = word.replace("-", "_")
    if name in names:
        return name
    near = get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"the controllers are {', '.join(sorted(names))}"
    raise InputError(f"--controllers: there is no controller {word}; {hint}")
