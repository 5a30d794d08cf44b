"""The latest decisions about each workload: where it was placed, and what the record of the decision said.

A decision is noted when a binding changes its placement, or fails to get one. The record is the one that the scheduler
writes into the status of the binding, so the history is the same on every API server. It is appended to a file, which
the next process reads; the file is written again as a whole when most of its lines are outdated.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import cast

import msgspec

from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.controllers.conditions import find_condition
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.store.files import PRIVATE_MODE, replace_file

log = logging.getLogger("trimtab.console")
MAX_DECISIONS = 12
"""Decisions that are kept per workload."""
MAX_WORKLOADS = 50_000
MAX_LINE_BYTES = 64 << 10
MAX_MESSAGE = 300
MIN_OUTDATED_LINES = 1000
"""The file is written again when it has so many lines, and twice as many as there are decisions."""
SECONDS_BETWEEN_WRITES = 1.0
Name = tuple[str, str]
"""Namespace and name of a binding."""


class RejectedGroup(msgspec.Struct, frozen=True):
    """The clusters that one filter rejected."""

    filter: str
    message: str
    count: int
    clusters: tuple[str, ...] = ()


class PastDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision about a workload."""

    at: datetime
    placement: dict[str, int] = {}
    """Replicas by cluster; empty when no cluster fitted."""
    message: str = ""
    """Why nothing was decided."""
    mode: str = ""
    rule: str = ""
    clusters: int = 0
    feasible: int = 0
    rejected: tuple[RejectedGroup, ...] = ()
    group: str = ""
    """The affinity group that was in use."""


class _Line(msgspec.Struct, array_like=True):
    """A decision in the file; without one, the binding was deleted."""

    namespace: str
    name: str
    uid: str
    decision: PastDecision | None = None


def decision_of(binding: Binding, now: datetime) -> PastDecision | None:
    """The last decision that a binding tells about; None while there is none."""
    record, status = binding.status.decision, binding.status
    placement = {target.name: target.replicas for target in binding.spec.clusters}
    scheduled = find_condition(status.conditions, "Scheduled")
    failed = scheduled is not None and scheduled.status == "False"
    if not placement and not failed:
        return None
    at = (record.time if record is not None else None) or status.last_scheduled_time
    if failed and scheduled is not None and not placement:
        at = scheduled.last_transition_time or at
    return PastDecision(
        at=at or now,
        placement=placement,
        message=scheduled.message[:MAX_MESSAGE] if failed and scheduled is not None else "",
        mode=record.mode if record is not None else "",
        rule=record.division_strategy if record is not None else "",
        clusters=record.total_clusters if record is not None else 0,
        feasible=record.feasible_clusters if record is not None else 0,
        rejected=tuple(
            RejectedGroup(one.filter, one.message[:MAX_MESSAGE], one.count, one.clusters)
            for one in (record.rejected if record is not None else ())
        ),
        group=status.scheduler_observing_affinity_name,
    )


class DecisionHistory:
    """The decisions about the bindings of one cache."""

    def __init__(self, now: Callable[[], datetime], file: Path | None = None) -> None:
        self._now = now
        self._file = file
        self._decisions: dict[Name, tuple[str, deque[PastDecision]]] = {}
        self._unwritten: list[_Line] = []
        self._lines = 0
        self._writing: asyncio.TimerHandle | None = None
        if file is not None:
            self._read(file)

    def follow(self, cache: Cache) -> None:
        """Listen to the bindings of a cache."""
        for type_ in (ResourceBinding, ClusterResourceBinding):
            cache.table_of(type_).add_listener(self._binding_changed)

    def close(self) -> None:
        """Write what is not written yet."""
        if self._writing is not None:
            self._writing.cancel()
        self._write()

    def _binding_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is not None:
            self.add(cast("Binding", new.typed))
        elif old is not None and self._decisions.pop(old.name, None) is not None:
            self._keep(_Line(*old.name, ""))

    def add(self, binding: Binding) -> None:
        """Note the decision about a binding, if it is another one than before."""
        decision = decision_of(binding, self._now())
        if decision is None:
            return
        name = (binding.namespace, binding.name)
        uid, known = self._decisions.get(name, ("", None))
        if known is None or uid != binding.metadata.uid:
            while len(self._decisions) >= MAX_WORKLOADS:
                del self._decisions[next(iter(self._decisions))]
            known = self._put(name, binding.metadata.uid)
        elif known and is_same(known[-1], decision):
            if not known[-1].clusters and decision.clusters:  # the record is written a moment after the placement
                known[-1] = msgspec.structs.replace(decision, at=known[-1].at)
                self._keep(_Line(*name, binding.metadata.uid, known[-1]))
            return
        if known and decision.at <= known[-1].at:
            decision = msgspec.structs.replace(decision, at=self._now())
        known.append(decision)
        self._keep(_Line(*name, binding.metadata.uid, decision))

    def decisions(self, namespace: str, name: str) -> list[PastDecision]:
        """The decisions about a binding, the oldest first."""
        return list(self._decisions.get((namespace, name), ("", ()))[1])

    def _put(self, name: Name, uid: str) -> deque[PastDecision]:
        known: deque[PastDecision] = deque(maxlen=MAX_DECISIONS)
        self._decisions[name] = (uid, known)
        return known

    # the file

    def _read(self, file: Path) -> None:
        """Read the file of an earlier process; lines that cannot be read are left out."""
        try:
            lines = file.read_bytes().splitlines()
        except OSError:
            return
        self._lines = len(lines)
        decoder = msgspec.json.Decoder(_Line)
        for text in lines:
            try:
                line = decoder.decode(text)
            except msgspec.MsgspecError:
                continue
            self._restore(line)

    def _restore(self, line: _Line) -> None:
        name = (line.namespace, line.name)
        if line.decision is None:
            self._decisions.pop(name, None)
            return
        uid, known = self._decisions.get(name, ("", None))
        if known is None or uid != line.uid:
            known = self._put(name, line.uid)
        if known and known[-1].at == line.decision.at:
            known[-1] = line.decision
        else:
            known.append(line.decision)

    def _keep(self, line: _Line) -> None:
        """Write a line soon; lines of one second are written together."""
        if self._file is None:
            return
        self._unwritten.append(line)
        if self._writing is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return
            self._writing = loop.call_later(SECONDS_BETWEEN_WRITES, self._write)

    def _write(self) -> None:
        """Append the new lines; without room on the disk they are kept in memory alone."""
        self._writing = None
        if self._file is None or not self._unwritten:
            return
        lines, self._unwritten = self._unwritten, []
        self._lines += len(lines)
        try:
            if self._lines > MIN_OUTDATED_LINES + 2 * sum(len(known) for _, known in self._decisions.values()):
                everything = [
                    _Line(*name, uid, decision) for name, (uid, known) in self._decisions.items() for decision in known
                ]
                replace_file(self._file, encode_lines(everything))
                self._lines = len(everything)
                return
            with os.fdopen(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_MODE), "ab") as file:
                file.write(encode_lines(lines))
        except OSError as fault:
            log.warning("%s: decisions were not written: %s", self._file, fault.strerror or fault)


def encode_lines(lines: Iterable[_Line]) -> bytes:
    encode = msgspec.json.Encoder().encode
    return b"".join(text + b"\n" for line in lines if len(text := encode(line)) <= MAX_LINE_BYTES)


def is_same(one: PastDecision, other: PastDecision) -> bool:
    """Whether two decisions placed the workload alike, or failed alike."""
    return one.placement == other.placement and (bool(one.placement) or one.message == other.message)
