"""The image follows the OCI layout: every digest and size is that of its blob."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from archives import Entry, directory, tar
from image import HOME, ImageError, check_prerequisites, kept_entries, list_only_present_files, make_layer, oci_archive


def blobs_of(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as content:
        return {member.name: content.extractfile(member).read() for member in content if member.isfile()}


def test_descriptors_name_the_digest_and_size_of_their_blobs() -> None:
    layers = [make_layer("base", [Entry("a", b"1")], 0), make_layer("app", [Entry("b", b"2")], 0)]
    blobs = blobs_of(oci_archive(layers, "1.2.3", 0))

    def follow(descriptor: dict[str, object]) -> bytes:
        blob = blobs["blobs/sha256/" + str(descriptor["digest"]).removeprefix("sha256:")]
        assert f"sha256:{hashlib.sha256(blob).hexdigest()}" == descriptor["digest"]
        assert len(blob) == descriptor["size"]
        return blob

    assert json.loads(blobs["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    manifest = json.loads(follow(json.loads(blobs["index.json"])["manifests"][0]))
    config = json.loads(follow(manifest["config"]))
    assert [follow(layer) for layer in manifest["layers"]] == [layer.blob for layer in layers]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer.archive).hexdigest()}" for layer in layers]


def test_image_runs_trimtab_as_an_unprivileged_user() -> None:
    blobs = blobs_of(oci_archive([make_layer("app", [], 0)], "1.2.3", 0))
    config = next(found for blob in blobs.values() if (found := json.loads(blob)).get("config", {}).get("User"))[
        "config"
    ]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"][1:] == ["-m", "trimtab"]
    assert f"PYTHONPATH=/{HOME}/application:/{HOME}/dependencies" in config["Env"]


def test_only_what_python_needs_is_kept_of_a_package() -> None:
    names = ["usr/bin/python3.11", "usr/bin/perl", "bin/sh", "usr/lib/python3.11/os.py", "usr/lib/python3.11/test/x.py"]
    archive = tar([directory("usr"), *(Entry(name, b"x") for name in names)], 0)
    assert [entry.name for entry in kept_entries(archive)] == ["usr/bin/python3.11", "usr/lib/python3.11/os.py"]


def test_missing_tool_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("image.sys.version_info", (3, 11, 0))
    monkeypatch.setattr("image.platform.machine", lambda: "x86_64")
    monkeypatch.setattr("image.shutil.which", lambda _: None)
    with pytest.raises(ImageError, match="apt-get install mmdebstrap"):
        check_prerequisites()


def test_record_of_a_package_lists_only_what_is_in_the_image(tmp_path: Path) -> None:
    about = tmp_path / "one-1.dist-info"
    about.mkdir()
    (tmp_path / "one.py").touch()
    kept = "one.py,sha256=a,0\none-1.dist-info/RECORD,,\n"
    (about / "RECORD").write_text(f"../../bin/one,sha256=depends-on-a-path,200\n{kept}")
    list_only_present_files(tmp_path)
    assert (about / "RECORD").read_text() == kept
