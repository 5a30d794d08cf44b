"""The file with which a control plane resumes, and to which it leaves what it knows when it stops (`saved_state.py`)."""

import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from trimtab.api.profile import Profile
from trimtab.runtime.saved_state import ServerTables, origin_of, take_state, write_state
from trimtab.runtime.saved_tables import SavedPart, SavedQueue

log = logging.getLogger("trimtab.saved_state")


class StateFile:
    """Is read once, when it is created; without a path nothing is read and nothing is left."""

    def __init__(
        self, path: Path | None, profile: Profile, settings: Mapping[str, Any], controllers: Collection[str]
    ) -> None:
        """A profile in which every start reconciles everything uses no file."""
        self._path = path if profile.silent_restarts else None
        self._origin = origin_of(profile.name, settings, controllers) if self._path is not None else ""
        self._saved = take_state(self._path, self._origin) if self._path is not None else None

    @property
    def is_written(self) -> bool:
        """Whether something is left for the next start."""
        return self._path is not None

    @property
    def is_resumed(self) -> bool:
        """Whether there was a file that this process can use."""
        return self._saved is not None

    @property
    def queues(self) -> Mapping[str, SavedQueue] | None:
        return self._saved.queues if self._saved is not None else None

    def tables_of_host(self) -> ServerTables | None:
        return self._saved.tables_of_host() if self._saved is not None else None

    def tables_of_member(self, name: str, address: str) -> ServerTables | None:
        return self._saved.tables_of_member(name, address) if self._saved is not None else None

    def write(
        self,
        queues: dict[str, SavedQueue],
        members: dict[str, str],
        tables: Iterable[tuple[str, Iterable[SavedPart]]],
    ) -> None:
        """Leave this to the next process; what cannot be written costs it only time."""
        if self._path is None:
            return
        try:
            write_state(self._path, self._origin, queues, members, tables)
        except OSError as fault:
            log.warning("cannot write %s: %s; the next start reads and reconciles everything", self._path, fault)
