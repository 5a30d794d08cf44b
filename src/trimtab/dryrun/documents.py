"""Reads the objects of YAML and JSON files, each with its file and position."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trimtab.api.value import Raw
from trimtab.api.yaml_documents import FILE, YamlError, load_yaml_documents
from trimtab.errors import InputError, unreadable

FILE_SUFFIXES = (".yaml", ".yml", ".json")


class Document(NamedTuple):
    """One object of a file, and its position there."""

    obj: Raw
    file: str
    position: int

    @property
    def location(self) -> str:
        return f"{self.file}, document {self.position}"


def read_documents(files: Iterable[str]) -> Iterator[Document]:
    """All objects of these YAML or JSON files (`-` is standard input); a List yields its items.

    A directory stands for the files in it that end in .yaml, .yml or .json, as with kubectl.
    """
    for file in files:
        for path in _files_of(file):
            yield from _read_file(path)


def _files_of(file: str) -> list[str]:
    if file == "-" or not Path(file).is_dir():
        return [file]
    found = sorted(str(path) for path in Path(file).iterdir() if path.suffix in FILE_SUFFIXES and path.is_file())
    if not found:
        raise InputError(f"{file} has no files that end in {', '.join(FILE_SUFFIXES)}")
    return found


def _read_file(file: str) -> Iterator[Document]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as fault:
        raise unreadable(file, fault) from fault
    if len(text) > FILE.size:
        raise InputError(f"{file} is larger than {FILE.size >> 20} MiB")
    position = 0
    try:
        for document in load_yaml_documents(text, FILE):
            position += 1
            if document is not None:
                yield from documents_in(document, file, position)
    except YamlError as fault:
        raise InputError(f"{file}, document {position + 1}: not YAML: {fault}") from fault


def documents_in(document: Any, file: str, position: int) -> Iterator[Document]:
    """The object, or the objects of a List; raises InputError for what is none."""
    if not isinstance(document, dict):
        raise InputError(f"{file}, document {position}: expected an object, found {type(document).__name__}")
    if document.get("kind") == "List" or (str(document.get("kind", "")).endswith("List") and "items" in document):
        items = document.get("items") or []
        if not isinstance(items, list):
            raise InputError(f"{file}, document {position}: items is no list")
        for item in items:
            yield from documents_in(item, file, position)
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise InputError(f"{file}, document {position}: {field} is missing")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise InputError(f"{file}, document {position}: {document['kind']}: metadata.name is missing")
    for field in ("name", "namespace"):
        if not isinstance(metadata.get(field, ""), str | None):
            raise InputError(f"{file}, document {position}: {document['kind']}: metadata.{field} is no text")
    yield Document(document, file, position)
