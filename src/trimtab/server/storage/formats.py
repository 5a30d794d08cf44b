"""The formats of stored objects, and how a store of an older one is opened.

The number of the format is `FORMAT` of `store/sqlite.py`. To change how objects are stored: raise it, and add here how
a value of the previous format is converted. The store converts all values in one transaction when it is opened; a store
of a newer format is refused. tests/store has a store of every format.
"""

from collections.abc import Mapping
from pathlib import Path

from trimtab.server.storage.field_renames import convert_to_format_2
from trimtab.store.format_conversion import Conversion
from trimtab.store.index import Retention
from trimtab.store.store import Store
from trimtab.store.value_cipher import ValueCipher

CONVERSIONS: Mapping[int, Conversion] = {1: convert_to_format_2}
"""By format, the conversion of a value to the next format."""


def open_store(
    directory: Path,
    retention: Retention = Retention(),  # noqa: B008 - a frozen value
    cipher: ValueCipher | None = None,
) -> Store:
    """The store of an API server in a data directory, in the current format; `cipher` encrypts values in its file."""
    return Store.open(directory, retention, CONVERSIONS, cipher)
