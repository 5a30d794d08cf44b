"""Which states of the movement model are the same, and the one of them that is explored.

Controllers cannot tell two states apart that differ only in absolute times, absolute generations, or fields that none of
them reads. `Normalizer.normal` turns a state into the representative of its class. All further steps start from it, so equal parts
of states are one object in memory, and a reconcile is computed once for all states with the same objects.

- **Generations** are relative to that of the binding, which is always `GENERATION`. Older ones keep their order only.
- **Times** keep the orders and equalities that controllers ask for. When no reconcile is in progress, all deadlines of
  moves, holds, tasks and charges have passed. That is enough, because a deadline that passes only adds to what a controller may
  do: before it, the controller writes nothing, or what it also writes later. A test checks this in every state
  (`test_a_deadline_that_passes_only_adds_to_what_a_controller_may_do`). The pause after a reverted move is the
  exception; it ends by a step of its own. While a reconcile is in progress no time passes, so a process that stops for
  longer than a deadline between two writes is not explored.
- **resourceVersions** do not exist: a reconcile in progress loses the writes that a change of another writer makes impossible
  (`movement_model.without_conflicts`).
- **Writes that change nothing** in this sense are not sent, unless the same reconcile patches the object again.
- **Moves** that are finished, or that a newer one out of the same cluster supersedes, are forgotten unless a budget counts
  them: the log would keep them, and nobody reads them. Of others, only what a controller reads is kept (`normal_move`). When
  no reconcile is in progress, charges of finished Moves are forgotten as well: the gate ignores them.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from builders import NOON

from properties.movement_model import (
    ModelState,
    ObjectKey,
    PendingWrite,
    Reconcile,
    compute_reconcile,
    delete,
    key_of,
    store,
    write_object,
)
from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.disruption import DisruptionBudget, Move
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.value import Object, Raw
from trimtab.controllers import well_known
from trimtab.controllers.movement import binding_moves

GENERATION = 100
FINISHED = 0
"""The generation of finished Moves."""
EVICTIONS = ("ClusterFailover", "ApplicationFailover")
EXPIRED = NOON - timedelta(hours=2)
LONG_AGO = NOON - timedelta(hours=4)
UNREAD = "2026-03-01T10:00:00Z"
"""A time that no controller of the model reads."""
NOISE = ("resourceVersion", "decision", "message", "finished")
"""What no controller of the model reads. `finished` only delays a new move over what an old one leaves."""
ISO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
UNREAD_TIMES = ("lastTransitionTime", "timeAdded", "deletionTimestamp", "healthySince")
READ_TIMES = ("since", "until", "started", "creationTimestamp", "lastScheduledTime", "rescheduleTriggeredAt")
CONSTANT_CONDITIONS = ("Scheduled", "FullyApplied")
"""Conditions of which the controllers of the model read only that they exist."""
GENERATION_FIELDS = ("schedulerObservedGeneration", binding_moves.GENERATION_ANNOTATION)
Generations = tuple[tuple[int, int], ...]
"""The normal generation of each generation that occurs."""


class Normalizer:
    """Representatives of states; equal objects, sets of objects and reconciles are shared."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, bytes], Object] = {}
        self._known: dict[int, Object] = {}
        """Objects in normal form, by id."""
        self._shares: dict[tuple[int, Generations], tuple[Object, Object]] = {}
        """The normal form of other objects, by id; with the object, so that its id stays valid."""
        self._times: dict[tuple[object, ...], Object] = {}
        self._sets: dict[tuple[int, ...], Mapping[ObjectKey, Object]] = {}
        self._normal: dict[
            tuple[object, ...], tuple[Mapping[ObjectKey, Object], Generations, Mapping[ObjectKey, Object]]
        ] = {}
        """The normal form of objects, by their ids; with the objects, so that their ids stay valid."""
        self._reads: dict[str, set[type[Any]]] = {}
        """The kinds that a controller reads."""
        self._reconciles: dict[tuple[object, ...], Reconcile | None] = {}

    def normal(self, model: ModelState) -> ModelState:
        """The representative of the class of this state."""
        pending = tuple(generations_of_writes(model.running))
        key = tuple(map(id, model.objects.values())), pending, bool(model.running), model.now == NOON
        if key not in self._normal:
            self._normal[key] = *self._normal_objects(model), model.objects
        objects, generations, _ = self._normal[key]
        running = model.running
        if running and any(old != new for old, new in generations):
            running = tuple(shift_reconcile(reconcile, dict(generations)) for reconcile in running)
        return model._replace(objects=objects, running=running, now=NOON)

    def _normal_objects(self, model: ModelState) -> tuple[Mapping[ObjectKey, Object], Generations]:
        model = without_forgotten_moves(without_finished_charges(model))
        generations = generations_of(model)
        shift = generations if any(old != new for old, new in generations) else ()
        things = [self._shared(thing, shift) for thing in model.objects.values()]
        if not model.running:
            starts = normal_starts(things)
            things = [self._timeless(thing, starts, model.now) for thing in things]
        return self._set(things), generations

    def _set(self, things: list[Object]) -> Mapping[ObjectKey, Object]:
        things.sort(key=lambda thing: (type(thing).__name__, thing.namespace, thing.name))
        key = tuple(map(id, things))
        if key not in self._sets:
            self._sets[key] = {key_of(thing): thing for thing in things}
        return self._sets[key]

    def key(self, model: ModelState) -> tuple[object, ...]:
        """What tells the representatives of two classes apart."""
        return id(model.objects), tuple(model.pods.values()), model.events, model.has_failed, model.running

    def start_reconcile(self, model: ModelState, name: str) -> Reconcile | None:
        """The writes of a controller in this state that change something; None if there are none."""
        reads = self._reads.setdefault(name, set())
        key = (name, model.mode, *(id(thing) for thing in model.objects.values() if type(thing) in reads))
        if reads and key in self._reconciles:
            return self._reconciles[key]
        found, read = compute_reconcile(model._replace(running=()), name)
        found = found and self._without_empty_writes(model, found)
        if read <= reads:
            self._reconciles[key] = found
        else:  # results for the same objects of fewer kinds may differ
            reads |= read
            self._reconciles = {known: value for known, value in self._reconciles.items() if known[0] != name}
        return found

    def _without_empty_writes(self, model: ModelState, reconcile: Reconcile) -> Reconcile | None:
        kept: list[PendingWrite] = []
        model = model._replace(running=())
        for position, write in enumerate(reconcile.writes):
            after = self.normal(write_object(model, write)) if write.patch and not write.creates else None
            rewritten = any(write.key == later.key for later in reconcile.writes[position + 1 :])
            if after is None or rewritten or after.objects is not self.normal(model).objects:
                kept.append(write._replace(patch=normal_patch(write)))
            model = write_object(model, write)
        return Reconcile(reconcile.controller, tuple(kept)) if kept else None

    def _shared(self, thing: Object, generations: Generations = ()) -> Object:
        if id(thing) in self._known and not (generations and isinstance(thing, ResourceBinding | Move)):
            return thing
        key = id(thing), generations
        if key not in self._shares:
            self._shares[key] = thing, self._same(thing, thing_in_normal_form(thing, to_wire(thing), generations))
        return self._shares[key][1]

    def _timeless(self, thing: Object, starts: Mapping[datetime, datetime], now: datetime) -> Object:
        """A shared object in normal form without absolute times."""
        relevant = tuple(starts.items()) if isinstance(thing, DisruptionBudget | Move) else ()
        key = id(thing), relevant, now
        if key not in self._times:
            changed = with_times(thing, now, starts)
            self._times[key] = thing if changed == thing else self._same(thing, to_wire(changed))
        return self._times[key]

    def _same(self, thing: Object, raw: Raw) -> Object:
        decoded = kind_of(thing).decode(raw)
        key = type(thing).__name__, msgspec.json.encode(to_wire(decoded), order="sorted")
        if key not in self._objects:
            self._objects[key] = decoded
            self._known[id(decoded)] = decoded
        return self._objects[key]


def without_finished_charges(model: ModelState) -> ModelState:
    """The state without charges whose Move is finished: nobody counts them, and the budget controller removes them."""
    if model.running:
        return model
    finished = {(move.spec.from_, move.status.started) for move in model.all(Move) if move.status.outcome}
    budget = model.budget
    kept = tuple(entry for entry in budget.status.in_flight if (entry.from_, entry.since) not in finished)
    if kept == budget.status.in_flight:
        return model
    return store(model, budget.but(status=budget.status.but(in_flight=kept)))


def without_forgotten_moves(model: ModelState) -> ModelState:
    """The state without Moves that are over or superseded; one that has not begun may still begin again."""
    counted = {(entry.from_, entry.since) for entry in model.budget.status.in_flight}
    current = model.binding.metadata.generation
    written = set(generations_of_writes(model.running))
    begun = [move for move in model.all(Move) if generation_of_move(move.name) <= current]
    newest: dict[str, int] = {}
    for move in begun:
        if not move.status.outcome:
            newest[move.spec.from_] = max(newest.get(move.spec.from_, 0), generation_of_move(move.name))
    for move in begun:
        is_over = move.status.outcome or generation_of_move(move.name) < newest[move.spec.from_]
        if not is_over:
            continue
        if (move.spec.from_, move.status.started) not in counted:
            model = delete(model, key_of(move))
        elif move.status.outcome and generation_of_move(move.name) not in written:
            model = store(delete(model, key_of(move)), without_generation(move))
    return model


def without_generation(move: Move) -> Move:
    """A finished Move that a budget still counts: its generation is not read any more."""
    binding, _, source = move.name.split(".")
    annotations = {binding_moves.GENERATION_ANNOTATION: str(FINISHED)}
    return move.but(metadata=move.metadata.but(name=f"{binding}.{FINISHED}.{source}", annotations=annotations))


# --- generations ---


def generations_of(model: ModelState) -> Generations:
    """The normal form of all generations: that of the binding is GENERATION, older ones follow it in their order."""
    current = model.binding.metadata.generation
    found = {generation_of_move(move.name) for move in model.all(Move)} | set(generations_of_writes(model.running))
    older = sorted((one for one in found - {FINISHED} if one < current), reverse=True)
    shifted = {one: GENERATION + one - current for one in (*found, current) if one >= current}
    shifted |= {one: GENERATION - 1 - rank for rank, one in enumerate(older)}
    return tuple(sorted(shifted.items()))


def generations_of_writes(running: tuple[Reconcile, ...]) -> Iterator[int]:
    for reconcile in running:
        for write in reconcile.writes:
            if write.key[0] == "Move":
                yield generation_of_move(write.key[2])


def generation_of_move(name: str) -> int:
    return int(name.split(".")[1])


def rename_move(name: str, generations: Mapping[int, int]) -> str:
    binding, generation, source = name.split(".")
    return f"{binding}.{generations.get(int(generation), int(generation))}.{source}"


def normal_generation(value: int, generations: Mapping[int, int]) -> int:
    """A generation that was observed: what matters is whether it is the current one, or a later one."""
    current = next((old for old, new in generations.items() if new == GENERATION), GENERATION)
    return GENERATION + max(-1, value - current)


def shift_reconcile(reconcile: Reconcile, generations: Mapping[int, int]) -> Reconcile:
    return reconcile._replace(writes=tuple(shift_write(write, generations) for write in reconcile.writes))


def shift_write(write: PendingWrite, generations: Mapping[int, int]) -> PendingWrite:
    kind, namespace, name = write.key
    key = (kind, namespace, rename_move(name, generations) if kind == "Move" else name)
    if not write.patch or kind not in ("Move", "ResourceBinding"):
        return write._replace(key=key)
    return write._replace(key=key, patch=normal_patch(write, generations))


def normal_patch(write: PendingWrite, generations: Mapping[int, int] | None = None) -> bytes:
    if not write.patch:
        return b""
    raw = cleaned(msgspec.json.decode(write.patch), generations or {}, write.key[0])
    if write.key[0] == "Move" and "name" in (metadata := raw.get("metadata") or {}):
        metadata["name"] = rename_move(metadata["name"], generations or {})
    if write.key[0] == "DisruptionBudget" and "status" in raw:
        raw["status"] = {name: value for name, value in raw["status"].items() if name == "inFlight"}
    return msgspec.json.encode(raw, order="sorted")


# --- one object ---


def thing_in_normal_form(thing: Object, raw: Raw, shift: Generations) -> Raw:
    if isinstance(thing, WorkloadRebalancer):
        return raw
    generations = dict(shift)
    raw = cleaned(raw, generations, kind_of(thing).name)
    metadata = raw["metadata"]
    metadata["generation"] = GENERATION if isinstance(thing, ResourceBinding) else 1
    if isinstance(thing, Move):
        metadata["name"] = metadata["uid"] = rename_move(metadata["name"], generations)
        raw = normal_move(raw)
    if isinstance(thing, DisruptionBudget):  # the gate computes the rest of the status again
        raw["status"] = {"inFlight": (raw.get("status") or {}).get("inFlight") or []}
    return raw


def normal_move(raw: Raw) -> Raw:
    """A Move with only what controllers read: of a finished one, that it is finished."""
    spec, status = raw["spec"], raw.get("status") or {}
    metadata = {name: value for name, value in raw["metadata"].items() if name != "labels"}
    read = {"object": spec["object"], "from": spec["from"]}
    if status.get("outcome"):
        status = {**status, "outcome": "Done"}
    else:
        read["cause"] = "ClusterFailover" if spec.get("cause") in EVICTIONS else "Rebalance"
        read["to"] = [{"name": target["name"]} for target in spec.get("to") or ()]
    return {**raw, "metadata": metadata, "spec": read, "status": status}


def cleaned(raw: Raw, generations: Mapping[int, int], kind: str) -> Raw:
    """The object or patch with only what controllers read, and with normal generations."""
    noise = NOISE if kind != "Cluster" else ("resourceVersion",)  # `cluster_departure` compares its message

    def clean(name: str, value: Any, parent: Raw, within: str = "") -> Any:
        if isinstance(value, dict):
            return {key: clean(key, inner, value, name) for key, inner in value.items() if key not in noise}
        if isinstance(value, list):
            entries = [clean(name, inner, parent, within) for inner in value]
            return [one for one in map(normal_condition, entries) if one] if name == "conditions" else entries
        if name in GENERATION_FIELDS and value is not None:
            is_of_move = name == binding_moves.GENERATION_ANNOTATION
            found = generations.get(int(value), int(value)) if is_of_move else normal_generation(value, generations)
            return str(found) if isinstance(value, str) else found
        if isinstance(value, str) and ISO_TIME.fullmatch(value):
            is_unread = (name in UNREAD_TIMES and parent.get("type") != "Stalled") or within == "previousPlacement"
            assert is_unread or name in READ_TIMES or parent.get("type") == "Stalled", f"a time in {within}.{name}"
            return UNREAD if is_unread else value
        return value

    result = clean("", raw, raw)
    assert isinstance(result, dict)
    return result


def normal_condition(condition: Raw) -> Raw | None:
    if condition["type"] == "Stalled" and condition["status"] != "True":
        return None
    if condition["type"] in CONSTANT_CONDITIONS:
        return {"type": condition["type"], "status": "True", "reason": "Any"}
    return condition


# --- times ---


def normal_starts(things: list[Object]) -> dict[datetime, datetime]:
    """The normal form of the times of charges: they have passed, and are equal to starts of moves as before."""
    budgets = [thing for thing in things if isinstance(thing, DisruptionBudget)]
    charged = sorted({entry.since for budget in budgets for entry in budget.status.in_flight if entry.since})
    return {since: EXPIRED - timedelta(seconds=rank) for rank, since in enumerate(charged)}


def with_times(thing: Object, now: datetime, starts: Mapping[datetime, datetime]) -> Object:
    if isinstance(thing, ResourceBinding):
        return binding_with_normal_times(thing, now)
    if isinstance(thing, DisruptionBudget):
        entries = tuple(entry.but(since=entry.since and starts[entry.since]) for entry in thing.status.in_flight)
        return thing.but(status=thing.status.but(in_flight=entries))
    if isinstance(thing, Move):
        started = thing.status.started
        return thing.but(status=thing.status.but(started=started and starts.get(started, LONG_AGO)))
    return thing


def binding_with_normal_times(binding: ResourceBinding, now: datetime) -> ResourceBinding:
    spec, status = binding.spec, binding.status
    holds = tuple(hold.but(since=EXPIRED, until=EXPIRED) for hold in status.holds)
    tasks = tuple(
        task if task.creation_timestamp is None else task.but(creation_timestamp=EXPIRED)
        for task in spec.graceful_eviction_tasks
    )
    stalled = binding_moves.stalled_condition_of(binding)
    is_reverted = stalled is not None and stalled.reason == "MoveReverted"  # of other reasons no time is read
    stalled_at = stalled.last_transition_time if stalled is not None and is_reverted else None
    new_stalled_at = NOON if stalled_at is not None and stalled_at >= now else EXPIRED
    stamp, last = spec.reschedule_triggered_at, status.last_scheduled_time
    new_stamp = new_last = EXPIRED
    if stamp is not None:
        is_newer = stamp > (stalled_at or now)
        new_stamp = (new_stalled_at if stalled_at else NOON) + timedelta(seconds=1 if is_newer else -7200)
        new_last = new_stamp - timedelta(seconds=last is not None and stamp > last)
    conditions = tuple(
        one.but(last_transition_time=new_stalled_at) if one is stalled else one for one in status.conditions
    )
    return binding.but(
        metadata=binding.metadata.but(annotations=with_signature(binding, stamp, new_stamp)),
        spec=spec.but(graceful_eviction_tasks=tasks, reschedule_triggered_at=stamp and new_stamp),
        status=status.but(holds=holds, conditions=conditions, last_scheduled_time=last and new_last),
    )


def with_signature(binding: ResourceBinding, stamp: datetime | None, new_stamp: datetime) -> dict[str, str]:
    """The annotations, in which the signature of a request names the normal time of the request."""
    annotations = dict(binding.metadata.annotations)
    if words := annotations.get(well_known.REQUESTED_BY, "").split():
        is_signed = stamp is not None and words[1] == stamp.isoformat()
        words[1] = (new_stamp if is_signed else LONG_AGO).isoformat()
        annotations[well_known.REQUESTED_BY] = " ".join(words)
    return annotations
