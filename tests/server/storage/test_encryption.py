"""Secrets are encrypted on the disk and in backups, keys rotate with a restart, and nothing opens without its key."""

import asyncio
import base64
from pathlib import Path

import pytest

from trimtab.errors import InputError, StoreError
from trimtab.server.storage.encryption import Encryption, read_encryption
from trimtab.server.storage.formats import open_store
from trimtab.store.backup import stream_backup
from trimtab.store.inspection import inspect_store
from trimtab.store.keys import object_key, resource_prefix
from trimtab.store.sqlite import FILE_NAME
from trimtab.store.txn import PutKey
from trimtab.store.value_cipher import SEALED_MARK

SECRET = object_key("", "secrets", "default", "a")
OTHER = object_key("", "configmaps", "default", "a")
VALUE = b'{"metadata":{"name":"a"},"data":{"password":"aHVudGVyMg=="}}'
OLD, NEW = b"o" * 32, b"n" * 32


def keys(*wanted: bytes | None) -> Encryption:
    return Encryption({resource_prefix("", "secrets"): list(wanted)})


def write(directory: Path, cipher: Encryption | None, *names: str) -> bytes:
    """Write objects, and return everything that is on the disk afterwards."""

    async def scenario() -> None:
        store = open_store(directory, cipher=cipher)
        for name in names:
            await store.transact(lambda _, name=name: [PutKey(name, VALUE)])
        await store.close()

    asyncio.run(scenario())
    return b"".join(path.read_bytes() for path in sorted(directory.glob(f"{FILE_NAME}*")))


def read(directory: Path, cipher: Encryption | None, key: str = SECRET) -> bytes:
    async def scenario() -> bytes:
        store = open_store(directory, cipher=cipher)
        entry = store.get(key)
        await store.close()
        assert entry is not None
        return entry.value

    return asyncio.run(scenario())


def test_only_the_listed_resources_are_encrypted_on_the_disk(tmp_path: Path) -> None:
    disk = write(tmp_path, keys(NEW), SECRET)
    assert b"aHVudGVyMg" not in disk
    assert SEALED_MARK in disk
    assert b"aHVudGVyMg" in write(tmp_path, keys(NEW), OTHER)
    assert read(tmp_path, keys(NEW)) == VALUE


def test_same_value_is_encrypted_differently_each_time() -> None:
    cipher = keys(NEW)
    assert cipher.seal(SECRET, VALUE) != cipher.seal(SECRET, VALUE)


def test_restart_with_a_new_key_writes_everything_with_it(tmp_path: Path) -> None:
    write(tmp_path, keys(OLD), SECRET)
    assert read(tmp_path, keys(NEW, OLD)) == VALUE
    assert read(tmp_path, keys(NEW)) == VALUE
    with pytest.raises(StoreError, match="key is not in the file of encryption keys: add the key"):
        read(tmp_path, keys(OLD))


def test_encryption_can_be_switched_on_and_off_for_existing_objects(tmp_path: Path) -> None:
    assert b"aHVudGVyMg" in write(tmp_path, None, SECRET)
    assert b"aHVudGVyMg" not in write(tmp_path, keys(NEW, None))
    assert read(tmp_path, keys(None, NEW)) == VALUE
    assert read(tmp_path, None) == VALUE


def test_encrypted_store_does_not_open_without_the_keys(tmp_path: Path) -> None:
    write(tmp_path, keys(NEW), SECRET)
    with pytest.raises(StoreError, match="--encryption-provider-config"):
        read(tmp_path, None)


def test_value_of_another_key_is_not_accepted() -> None:
    cipher = keys(NEW)
    sealed = cipher.seal(SECRET, VALUE)
    for key, value in ((object_key("", "secrets", "default", "b"), sealed), (SECRET, sealed[:-1] + b"x")):
        with pytest.raises(ValueError, match="was changed after it was encrypted"):
            cipher.open(key, value)


def test_backup_is_encrypted_as_the_store_is(tmp_path: Path) -> None:
    write(tmp_path, keys(NEW), SECRET)

    async def scenario() -> bytes:
        store = open_store(tmp_path, cipher=keys(NEW))
        frames = [frame async for frame in stream_backup(*store.snapshot(), store.stored_value)]
        await store.close()
        return b"".join(frames)

    frames = asyncio.run(scenario())
    assert b"aHVudGVyMg" not in frames
    assert SEALED_MARK in frames


def test_check_of_a_store_accepts_encrypted_objects(tmp_path: Path) -> None:
    write(tmp_path, keys(NEW), SECRET)
    assert inspect_store(tmp_path / FILE_NAME).problems == ()


CONFIGURATION = """
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
  - resources: [secrets, things.example.com]
    providers:
      - aesgcm: {keys: [{name: k1, secret: SECRET}]}
      - identity: {}
"""


def configuration(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "encryption.yaml"
    path.write_text(text.replace("SECRET", base64.b64encode(NEW).decode()))
    path.chmod(mode)
    return path


def test_file_of_a_kube_apiserver_is_read(tmp_path: Path) -> None:
    cipher = read_encryption(configuration(tmp_path, CONFIGURATION))
    assert cipher.covers(SECRET)
    assert cipher.covers(object_key("example.com", "things", "default", "a"))
    assert not cipher.covers(OTHER)
    assert keys(NEW).open(SECRET, cipher.seal(SECRET, VALUE)) == VALUE


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("SECRET", "AAAA", "has 3 bytes; it must have 16, 24 or 32"),
        ("SECRET", "'???'", "is not in base64"),
        ("secrets,", "'*.*',", "name each resource"),
        ("aesgcm", "aescbc", "unknown field `aescbc`"),
        ("EncryptionConfiguration", "Other", "and kind EncryptionConfiguration"),
        ("[{name: k1, secret: SECRET}]", "[]", ""),
    ],
)
def test_wrong_file_is_refused_with_its_mistake(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = configuration(tmp_path, CONFIGURATION.replace(old, new))
    if not message:
        assert not read_encryption(path).seal(SECRET, VALUE).startswith(SEALED_MARK)
        return
    with pytest.raises(InputError, match=message.replace("*", r"\*")):
        read_encryption(path)


def test_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="chmod 600"):
        read_encryption(configuration(tmp_path, CONFIGURATION, 0o644))


def test_first_entry_of_a_resource_decides_with_which_key_it_is_encrypted(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    entries = "".join(
        f"- resources: [secrets]\n  providers: [{{aesgcm: {{keys: [{{name: k, secret: {base64.b64encode(key).decode()}}}]}}}}]\n"
        for key in (NEW, OLD)
    )
    path.write_text(f"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n{entries}")
    path.chmod(0o600)
    assert keys(NEW).open(SECRET, read_encryption(path).seal(SECRET, VALUE)) == VALUE
