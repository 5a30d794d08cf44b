"""`trimtab store check`: of data directories and of backups."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from store.test_backup import MAPS, value
from trimtab.cli.commands.store import command
from trimtab.errors import StoreError
from trimtab.store.revision_marker import RevisionMarker
from trimtab.store.store import Store
from trimtab.store.txn import PutKey


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["check", *map(str, arguments)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    async def write() -> None:
        store = Store.open(tmp_path / "data")
        await store.commit([PutKey(f"{MAPS}{n}", value(str(n))) for n in range(5)])
        await store.close()

    asyncio.run(write())
    return tmp_path / "data"


def test_complete_store_and_file_are_ok(data: Path) -> None:
    for arguments in (("--data-dir", data), (data / "store.db",)):
        result = run(*arguments)
        assert result.exit_code == 0
        assert result.output == f"{data / 'store.db'}: format 2, revision 6, 5 objects\nok\n"


def test_missing_writes_are_reported_and_can_be_accepted(data: Path) -> None:
    RevisionMarker(data).replace(9)
    result = run("--data-dir", data)
    assert isinstance(result.exception, StoreError)
    assert "writes of the revisions 7 to 9 were acknowledged and are missing" in result.output
    with pytest.raises(StoreError, match="accept-loss"):
        Store.open(data)
    accepted = run("--data-dir", data, "--accept-loss")
    assert accepted.exit_code == 0
    assert "the missing writes are given up; the store continues at revision" in accepted.output
    assert (data / "restored").read_text() == "observe", "the members may have what the store lost"
    asyncio.run(Store.open(data).close())
    assert "lost nothing; nothing was changed" in run("--data-dir", data, "--accept-loss").output


@pytest.mark.parametrize("arguments", [(), ("--accept-loss",)])
def test_wrong_options_are_refused(arguments: tuple[str, ...], data: Path) -> None:
    assert run(*arguments).exit_code == 2
    assert run(data / "store.db", "--data-dir", data, *arguments).exit_code == 2


def test_loss_is_accepted_only_for_a_data_directory(data: Path) -> None:
    assert run(data / "store.db", "--accept-loss").exit_code == 2
