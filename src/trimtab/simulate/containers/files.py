"""The files that a simulated container sees: its own, and those of its volumes."""

from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

MAX_FILES = 1_000
MAX_FILE_CHARACTERS = 64 * 1024
MAX_SMALL_FILE_CHARACTERS = 4 * 1024
MAX_CHARACTERS_OF_LARGE_FILES = 64 * MAX_FILE_CHARACTERS
MAX_PATH_CHARACTERS = 4_096
_LINK = "\0link to "
"""The start of the content of a symbolic link; its target follows."""
_MAX_LINKS = 8
_FIRST_PROCESS_NAMESPACE = "proc/1/ns/mnt"

Directory = MutableMapping[str, str]
"""The content of files by their path below the directory, without a leading slash."""


class FileOwner(NamedTuple):
    """The user of a container, and the group of its volumes."""

    user: int = 0
    group: int = 0

    @property
    def mode(self) -> str:
        """The mode of files in volumes: only the owner reads them, unless they are everybody's."""
        if self.group:
            return "-rw-r-----"
        return "-rw-------" if self.user else "-rw-r--r--"


class Files:
    """A file tree with volumes mounted into it."""

    def __init__(
        self,
        mounts: Mapping[str, Directory] | None = None,
        own: Directory | None = None,
        owner: FileOwner = FileOwner(),  # noqa: B008 - a frozen value
    ) -> None:
        self._own: Directory = {} if own is None else own
        self.owner = owner
        self._mounts = {_normalize_path(path): directory for path, directory in (mounts or {}).items()}

    def _locate(self, path: str) -> tuple[Directory, str]:
        path = _normalize_path(path)
        for mount in sorted(self._mounts, key=len, reverse=True):
            if path == mount or path.startswith(f"{mount}/"):
                return self._mounts[mount], path[len(mount) + 1 :]
        return self._own, path.lstrip("/")

    def of_mount_namespace(self, path: str) -> "Files | None":
        """The files of the machine whose root is mounted where this path leads into its `/proc`; None if it is not."""
        directory, name = self._locate(path)
        is_machine = directory is not self._own and name == _FIRST_PROCESS_NAMESPACE
        return Files(own=directory) if is_machine else None

    def read(self, path: str) -> str | None:
        """The content of a file, or of that to which a symbolic link leads; None if it does not exist."""
        for _ in range(_MAX_LINKS):
            directory, name = self._locate(path)
            content = directory.get(name)
            if content is None or not content.startswith(_LINK):
                return content
            target = content.removeprefix(_LINK)
            path = target if target.startswith("/") else f"{path.rpartition('/')[0]}/{target}"
        return None

    def link(self, target: str, path: str) -> bool:
        """Make a symbolic link; false if the path exists."""
        return not self.exists(path) and self.write(path, _LINK + target)

    def write(self, path: str, content: str, *, append: bool = False) -> bool:
        """Write a file; false when the container has too many files, or too large ones."""
        directory, name = self._locate(path)
        if len(name) > MAX_PATH_CHARACTERS or (name not in directory and len(directory) >= MAX_FILES):
            return False
        before = directory.get(name, "") if append else ""
        written = (before + content)[-MAX_FILE_CHARACTERS:]
        if len(written) > max(MAX_SMALL_FILE_CHARACTERS, len(directory.get(name, ""))):
            others = sum(len(one) for one in directory.values())
            if others + len(written) > MAX_CHARACTERS_OF_LARGE_FILES:
                return False
        directory[name] = written
        return True

    def remove(self, path: str) -> bool:
        """Delete a file; false if it does not exist."""
        directory, name = self._locate(path)
        return directory.pop(name, None) is not None

    def is_directory(self, path: str) -> bool:
        """Whether it is a mount point or has files below it."""
        directory, name = self._locate(path)
        if _normalize_path(path) in self._mounts or _normalize_path(path) in ("", "/", "/tmp"):  # noqa: S108 - a simulated path
            return True
        return any(one.startswith(f"{name}/") for one in directory)

    def exists(self, path: str) -> bool:
        return self.read(path) is not None or self.is_directory(path)

    def count(self, path: str) -> int:
        """How many files the directory or volume of a path has, which every search in it looks at."""
        return len(self._locate(path)[0])

    def below(self, path: str) -> list[list[str]]:
        """The paths of all files below a directory, in parts and in order."""
        directory, name = self._locate(path)
        prefix = f"{name}/" if name else ""
        return sorted(one[len(prefix) :].split("/") for one in directory if one.startswith(prefix))

    def names(self, path: str) -> list[str]:
        """The names of the entries of a directory."""
        directory, name = self._locate(path)
        prefix = f"{name}/" if name else ""
        return sorted({one[len(prefix) :].split("/")[0] for one in directory if one.startswith(prefix)})


def _normalize_path(path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "/" + "/".join(parts)
