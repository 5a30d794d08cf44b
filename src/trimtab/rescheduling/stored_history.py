"""The history of moves in a ConfigMap, so that a rescheduler that restarts knows what its predecessor did."""

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.decide.rescheduling.history import DONE, ReschedulingHistory
from trimtab.errors import Conflict, NotFound
from trimtab.rescheduling.configuration import CONFIG_MAPS, NAMESPACE

STATE = "trimtab-rescheduler-state"
COMPONENT = "trimtab-rescheduler"
STATE_WRITE_ATTEMPTS = 3


class StoredHistory:
    """The history as this process knows it, and as it is stored."""

    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self.history: ReschedulingHistory | None = None
        """None before it was loaded."""
        self._data: dict[str, str] = {}
        self._revision = ""

    async def load(self) -> ReschedulingHistory:
        """The history of earlier rounds, including those before a restart."""
        if self.history is None:
            self.history = ReschedulingHistory()
            with contextlib.suppress(NotFound, msgspec.DecodeError):
                raw = await self._client.get(CONFIG_MAPS, NAMESPACE, STATE)
                self._data, self._revision = raw.get("data") or {}, raw["metadata"]["resourceVersion"]
                self.history = msgspec.json.decode(self._data.get("history.json", "{}"), type=ReschedulingHistory)
        return self.history

    async def save(self, history: ReschedulingHistory, config_error: str, notes: Sequence[str]) -> None:
        """Save what must survive a restart, if it differs from what is stored."""
        self.history = history
        lasting = history.persistent_part(self._now())
        data = {
            "history.json": msgspec.json.encode(lasting).decode(),
            "summary": summarize_history(lasting),
            "conditions.json": msgspec.json.encode(conditions_of(lasting, config_error, notes)).decode(),
        }
        if data == self._data or (
            not self._data and lasting == ReschedulingHistory() and not config_error and not notes
        ):
            return
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": STATE, "namespace": NAMESPACE},
            "data": data,
        }
        written = await self._write(body)
        self._data, self._revision = data, written["metadata"]["resourceVersion"]

    async def _write(self, body: Raw) -> Raw:
        """Write the state over the version that this process knows, and over a version that a user wrote in between.

        A former leader has stopped before its successor reads the state, so only users and restores write it meanwhile.
        """
        for _ in range(STATE_WRITE_ATTEMPTS):
            revision = {"metadata": {"resourceVersion": self._revision}} if self._revision else {}
            try:
                return await self._client.patch(
                    CONFIG_MAPS, NAMESPACE, STATE, {"data": body["data"], **revision}, manager=COMPONENT
                )
            except NotFound:
                return await self._client.create(CONFIG_MAPS, body, manager=COMPONENT)
            except Conflict:
                found = await self._client.get(CONFIG_MAPS, NAMESPACE, STATE)
                self._revision = found["metadata"]["resourceVersion"]
        raise Conflict("other clients keep changing this object", kind=CONFIG_MAPS.plural, name=STATE)


def conditions_of(history: ReschedulingHistory, config_error: str, notes: Sequence[str]) -> list[Raw]:
    """The conditions of the rescheduler for people and alerts: a ConfigMap has no status."""
    frozen = history.frozen_owners
    accepted = {"type": "ConfigurationAccepted", "status": "False" if config_error else "True"}
    stuck = {"type": "OwnersSuspended", "status": "True" if frozen else "False"}
    limited = {
        "type": "RescheduleLimited",
        "status": "True" if notes else "False",
        "message": "; ".join(notes),
    }
    return [{**accepted, "message": config_error}, {**stuck, "message": ", ".join(frozen)}, limited]


def summarize_history(history: ReschedulingHistory) -> str:
    done = sum(move.outcome == DONE for move in history.moves)
    wasted = sum(move.is_wasted for move in history.moves)
    frozen = history.frozen_owners
    text = f"{len(history.moves)} moves in a day, {done} arrived, {wasted} wasted"
    return f"{text}; suspended: {', '.join(frozen)}" if frozen else text
