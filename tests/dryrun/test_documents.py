"""Objects of YAML and JSON files, with their file and position."""

from pathlib import Path

import pytest

from trimtab.dryrun.documents import read_documents
from trimtab.errors import InputError

POD = "{apiVersion: v1, kind: Pod, metadata: {name: %s}}"


def write(folder: Path, text: str) -> str:
    (folder / "f.yaml").write_text(text)
    return str(folder / "f.yaml")


def test_lists_are_flattened_and_empty_documents_are_skipped(tmp_path: Path) -> None:
    text = f"{POD % 'a'}\n---\n---\napiVersion: v1\nkind: List\nitems: [{POD % 'b'}, {POD % 'c'}]\n"
    found = list(read_documents([write(tmp_path, text)]))
    assert [(one.obj["metadata"]["name"], one.position) for one in found] == [("a", 1), ("b", 3), ("c", 3)]
    assert found[0].location == f"{tmp_path / 'f.yaml'}, document 1"


def test_timestamp_is_a_string_as_in_kubernetes(tmp_path: Path) -> None:
    text = (POD % "a")[:-1] + ", status: {startTime: 2030-01-01T00:00:00Z}}"
    (found,) = read_documents([write(tmp_path, text)])
    assert found.obj["status"]["startTime"] == "2030-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "document 1: expected an object, found list"),
        ("{kind: Pod}", "document 1: apiVersion is missing"),
        ("{apiVersion: v1, kind: Pod}", "document 1: Pod: metadata.name is missing"),
        ("{apiVersion: v1, kind: [Pod], metadata: {name: a}}", "document 1: kind is missing"),
        ("{apiVersion: 1, kind: Pod, metadata: {name: a}}", "document 1: apiVersion is missing"),
        ("{apiVersion: v1, kind: Pod, metadata: [a]}", "metadata.name is missing"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: [a]}}", "metadata.name is no text"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: {b: c}}}", "metadata.namespace is no text"),
        ("{apiVersion: v1, kind: List, items: 5}", "items is no list"),
        (f"{POD % 'a'}\n---\na: b: c", "document 2: not YAML"),
    ],
)
def test_invalid_document_is_reported_with_its_position(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(read_documents([write(tmp_path, text)]))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"cannot read {tmp_path / 'none.yaml'}"):
        list(read_documents([str(tmp_path / "none.yaml")]))
