"""Converts a store of an older format to the current one when it is opened."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trimtab import errors
from trimtab.store.index import MemoryIndex
from trimtab.store.sqlite import FORMAT, CommitBatch, Journal
from trimtab.store.txn import PutKey, StagedState

Conversion = Callable[[str, bytes], bytes]
"""Returns the value of a key in the next format; the same value if nothing changes."""


class UnwrittenConversion(NamedTuple):
    """A conversion for which there was no room on the disk; it must be written before anything else."""

    batch: CommitBatch
    revision: int
    """The revision of the log before."""
    fault: errors.StorageFailed


def convert_to_current_format(
    index: MemoryIndex, journal: Journal, conversions: Mapping[int, Conversion]
) -> UnwrittenConversion | None:
    """Convert an older format in one transaction; without room on the disk only in memory."""
    if journal.format == FORMAT:
        return None
    try:
        steps = [conversions[version] for version in range(journal.format, FORMAT)]
    except KeyError as missing:
        raise ValueError(f"no conversion from format {missing} was given to open {journal.path}") from None
    state = StagedState(index)
    state.run(lambda _: list(_converted_entries(index, steps)))
    batch, revision = CommitBatch(state.events, (), index.compacted, FORMAT), index.revision
    unwritten = None
    try:
        journal.convert(batch, revision)
    except errors.StorageFailed as fault:
        unwritten = UnwrittenConversion(batch, revision, fault)
    index.apply(state.events)
    return unwritten


def _converted_entries(index: MemoryIndex, steps: Sequence[Conversion]) -> Iterator[PutKey]:
    for entry in index.entries.values():
        value = entry.value
        for convert in steps:
            value = convert(entry.key, value)
        if value != entry.value:
            yield PutKey(entry.key, value, entry.mod_revision)
