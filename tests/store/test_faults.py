import re
import sqlite3
from pathlib import Path

import pytest

from trimtab import errors
from trimtab.store.faults import fault_from

PATH = Path("/data/store.db")


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("what SQLite says")
    error.sqlite_errorcode = code | (3 << 8)
    return error


def test_every_sqlite_error_message_names_the_file_and_an_action() -> None:
    for code in range(1, 29):
        message = str(fault_from(PATH, sqlite_error(code)))
        assert re.match(r"(no space left to write )?/data/store\.db .*: (\w+ )+", message)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (sqlite3.SQLITE_FULL, "StorageFull"),
        (sqlite3.SQLITE_IOERR, "StorageFull"),
        (sqlite3.SQLITE_READONLY, "StorageFailed"),
        (sqlite3.SQLITE_CANTOPEN, "StorageFailed"),
        (sqlite3.SQLITE_CORRUPT, "StorageFailed"),
    ],
)
def test_what_a_write_can_meet_is_a_status_with_code_507(code: int, reason: str) -> None:
    fault = fault_from(PATH, sqlite_error(code))
    assert isinstance(fault, errors.ApiError)
    status = fault.status()
    assert (status["code"], status["reason"]) == (507, reason)
    assert "/data" in status["message"]
    assert status["details"]["retryAfterSeconds"] > 10  # so no Retry-After header: kubectl would wait for minutes
