"""The result of a rehearsal as lines for people and as a document for programs."""

from collections.abc import Iterator, Mapping
from typing import Any

from trimtab.api.wording import plural
from trimtab.rehearsal.rehearsal import Rehearsal
from trimtab.tables import format_table

MAX_FIELDS = 3
"""Fields of an update that are named in a row."""


def report_lines(found: Rehearsal, *, wide: bool = False) -> Iterator[str]:
    """The writes in members first: they cannot be undone."""
    if found.member_writes:
        rows = [
            (write.verb, write.cluster, write.object_name, short_list(write.fields, wide))
            for write in sorted(found.member_writes, key=lambda write: (write.verb != "delete", write))
        ]
        yield format_table(("WRITE", "CLUSTER", "OBJECT", "FIELDS"), rows)
        yield ""
    if found.placements:
        placed = [(change.binding, shares(change.before), shares(change.after)) for change in found.placements]
        yield format_table(("PLACEMENT", "BEFORE", "AFTER"), placed)
        yield ""
    if found.host_changes and wide:
        yield "On the host:"
        yield from (f"  {line}" for line in found.host_changes)
        yield ""
    yield (
        f"{plural(len(found.member_writes), 'write')} in members ({plural(len(found.deletions), 'deletion')}), "
        f"{plural(len(found.placements), 'changed placement')}, "
        f"{plural(len(found.host_changes), 'changed object')} on the host"
    )
    if found.not_read:
        yield f"not known for {', '.join(found.not_read)}: not reachable, or served by an agent"
    if found.left_out:
        yield f"not read from the host: {', '.join(found.left_out)}"
    if not found.is_finished:
        yield "the controllers were not finished after three minutes; there may be more"


def short_list(fields: tuple[str, ...], wide: bool) -> str:
    if wide or len(fields) <= MAX_FIELDS:
        return ", ".join(fields) or "-"
    return f"{', '.join(fields[:MAX_FIELDS])} and {len(fields) - MAX_FIELDS} more"


def shares(targets: Mapping[str, int]) -> str:
    return " ".join(f"{name}:{replicas}" if replicas else name for name, replicas in targets.items()) or "-"


def changed_names(found: Rehearsal) -> list[str]:
    """The objects that would be written in members, as `Kind/namespace/name`, each once."""
    names = ("/".join(part for part in (w.kind, w.namespace, w.name) if part) for w in found.member_writes)
    return list(dict.fromkeys(names))


def as_document(found: Rehearsal) -> dict[str, Any]:
    return {
        "memberWrites": [
            {**{key: value for key, value in write._asdict().items() if value}, "fields": list(write.fields)}
            for write in found.member_writes
        ],
        "placements": [
            {"binding": change.binding, "before": dict(change.before), "after": dict(change.after)}
            for change in found.placements
        ],
        "hostChanges": list(found.host_changes),
        "notRead": list(found.not_read),
        "leftOut": list(found.left_out),
        "finished": found.is_finished,
    }
