"""Manifests get the defaults of the API server and are validated like there."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from trimtab.api.kinds.native.pod import Pod
from trimtab.dryrun.manifest import Manifests
from trimtab.dryrun.manifests import read_manifests
from trimtab.errors import InputError


def read(folder: Path, *objects: dict[str, Any]) -> Manifests:
    (folder / "f.yaml").write_text(yaml.safe_dump_all(objects))
    return read_manifests([str(folder / "f.yaml")])


def pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "nginx"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


def test_defaults_and_namespace_are_set(tmp_path: Path) -> None:
    manifests = read(tmp_path, pod())
    (item,) = manifests.items
    assert item.name == "Pod default/p"
    assert item.raw["spec"]["restartPolicy"] == "Always"
    assert manifests.location_of(manifests.all(Pod)[0]) == f"{tmp_path / 'f.yaml'}, document 1"


def test_unknown_field_of_a_builtin_kind_is_a_warning(tmp_path: Path) -> None:
    manifests = read(tmp_path, pod(fromTheFuture=1))
    assert len(manifests.items) == 1
    assert 'unknown field "spec.fromTheFuture"' in manifests.warnings[0]


def test_unknown_field_of_a_kind_of_trimtab_is_an_error(tmp_path: Path) -> None:
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "x"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "wrong": 1},
    }
    with pytest.raises(InputError, match=r'the files have errors:\n.*unknown field "spec\.wrong"'):
        read(tmp_path, policy)


def test_unknown_kind_of_another_group_is_accepted_untyped(tmp_path: Path) -> None:
    (item,) = read(tmp_path, {"apiVersion": "example.io/v1", "kind": "Shop", "metadata": {"name": "a"}}).items
    assert item.typed is None


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "wéb☃"}, "name"),
        ({"name": "Web"}, "name"),
        ({"name": "web", "namespace": "A B"}, "namespace"),
        ({"name": "web", "labels": {"a b": "c"}}, "labels"),
    ],
)
def test_metadata_that_no_server_would_store_is_an_error(tmp_path: Path, metadata: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=rf"metadata\.{field}: Invalid value"):
        read(tmp_path, {**pod(), "metadata": metadata})


def test_object_that_is_in_the_files_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="document 2: Pod default/p is already in"):
        read(tmp_path, pod(), pod())
