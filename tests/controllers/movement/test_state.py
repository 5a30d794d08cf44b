"""The state machine of moves: each function changes only the fields it is for, and no other module builds them."""

import ast
import inspect
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import MINUTE, NOON, binding, status_item

from trimtab.api.kinds import work as work_kinds
from trimtab.api.kinds.policy import Placement, ReplicaSchedulingStrategy
from trimtab.api.kinds.work import (
    ActiveEviction,
    Binding,
    BindingSpec,
    BindingStatus,
    GracefulEvictionTask,
    HeldReplicas,
    PreviousPlacement,
    StateBeforeMove,
    TargetCluster,
)
from trimtab.api.value import Value
from trimtab.controllers import well_known
from trimtab.controllers.movement import state
from trimtab.controllers.movement.binding_moves import current_placement, placement_before_moves
from trimtab.runtime.declarations import load_declarations

SRC = Path(__file__).parents[3] / "src" / "trimtab"
BUILDER = SRC / "controllers" / "movement" / "state.py"
SPEC_FIELDS = ("clusters", "graceful_eviction_tasks", "active_eviction_history", "reschedule_triggered_at")
STATUS_FIELDS = ("holds", "replacement", "previous_placement")
VALUES = ("HeldReplicas", "StateBeforeMove", "PreviousPlacement", "ActiveEviction")
"""The values that only these fields have."""
DIVIDED = Placement(replica_scheduling=ReplicaSchedulingStrategy(replica_scheduling_type="Divided"))
TASK = GracefulEvictionTask(reason="TaintUntolerated", producer=well_known.TAINT_MANAGER)


def targets(**shares: int) -> tuple[TargetCluster, ...]:
    return tuple(TargetCluster(name=name, replicas=n) for name, n in shares.items())


PREVIOUSLY_THREE = PreviousPlacement(clusters=targets(m1=3), since=NOON)


def held(name: str = "m1", replicas: int = 3, reason: str = "Rebalance") -> HeldReplicas:
    return HeldReplicas(cluster=name, replicas=replicas, since=NOON, until=NOON + MINUTE, reason=reason)


def moving(reason: str = "Rebalance", **fields: Any) -> Binding:
    """Three replicas on their way from m1 to m2."""
    before = StateBeforeMove(before=targets(m1=3), ready=targets(m1=3), affinity_name="first")
    return binding(clusters={"m2": 3}, status_holds=(held(reason=reason),), status_replacement=before, **fields)


def test_a_request_is_stamped_and_signed_and_can_be_withdrawn() -> None:
    requested = state.request(binding(), NOON, "Rebalance", "job")
    assert requested.spec.reschedule_triggered_at == NOON
    assert requested.metadata.annotations[well_known.REQUESTED_BY] == f"Rebalance {NOON.isoformat()} job"
    assert state.withdraw(requested).spec.reschedule_triggered_at is None
    assert well_known.REQUESTED_BY not in state.request(binding(), NOON).metadata.annotations


def test_a_begun_move_holds_replicas_before_their_share_shrinks() -> None:
    subject = binding(clusters={"m1": 3})
    before = state.state_before_move(subject, {"m1": 3})
    announced = state.begin(subject, (held(),), before)
    assert announced.spec == subject.spec
    placed = state.place(announced, targets(m2=3))
    assert current_placement(placed) == {"m2": 3}
    assert placement_before_moves(placed) == {"m1": 3}


def test_a_hold_in_force_keeps_its_deadline_and_its_reason() -> None:
    later = NOON + timedelta(hours=1)
    again = state.hold(moving(), "m1", 2, "Drain", later, MINUTE)
    assert (again.replicas, again.until, again.reason) == (2, NOON + MINUTE, "Rebalance")
    fresh = state.hold(moving(), "m3", 1, "Drain", later, MINUTE)
    assert (fresh.since, fresh.until, fresh.reason) == (later, later + MINUTE, "Drain")


def test_the_state_before_the_first_move_is_kept_while_moves_are_in_progress() -> None:
    subject = moving()
    assert state.state_before_move(subject, {"m2": 3}) == subject.status.replacement


def test_a_finished_move_has_no_holds_and_a_finished_return_no_way_back() -> None:
    previous = PreviousPlacement(clusters=targets(m9=3))
    done = state.finish(moving(status_previous_placement=previous))
    assert (done.status.holds, done.status.replacement) == ((), None)
    assert done.status.previous_placement == previous
    assert state.finish(moving("Failback", status_previous_placement=previous)).status.previous_placement is None


def test_a_reverted_move_restores_placement_group_and_answers_the_request() -> None:
    subject = moving("Failback", status_previous_placement=PreviousPlacement(healthy_since=NOON, reverted_failbacks=1))
    subject = state.request(subject, NOON + timedelta(hours=1))
    assert subject.status.replacement is not None
    undone = state.revert(subject, subject.status.replacement, NOON)
    assert current_placement(undone) == {"m1": 3}
    assert undone.status.last_scheduled_time == NOON + timedelta(hours=1)
    assert undone.status.scheduler_observing_affinity_name == "first"
    assert undone.status.previous_placement == PreviousPlacement(reverted_failbacks=2)
    assert (undone.status.holds, undone.status.replacement) == ((), None)


def drained(clusters: dict[str, int], tasks: tuple[GracefulEvictionTask, ...] = (), **before: int) -> Binding:
    """The replicas of m1 are on their way to other clusters."""
    replacement = StateBeforeMove(before=targets(**before), ready=targets(**before))
    holds = (held(replicas=before["m1"], reason="Drain"),)
    subject = binding(
        clusters=clusters,
        status_holds=holds,
        status_replacement=replacement,
        status_placement_ref_clusters=("m1", "m2"),
    )
    return state.finish_tasks(subject, tasks)


def reverted(subject: Binding) -> Binding:
    assert subject.status.replacement is not None
    return state.revert(subject, subject.status.replacement, NOON)


def test_a_reverted_move_does_not_return_to_a_cluster_that_was_evicted_meanwhile() -> None:
    leaving = TASK.but(from_cluster="m2", replicas=2)
    undone = reverted(drained({"m3": 4}, (leaving,), m1=2, m2=2))
    assert current_placement(undone) == {"m1": 2, "m3": 2}  # what replaces the evicted replicas stays
    assert undone.spec.graceful_eviction_tasks == (leaving,)
    assert undone.status.placement_ref_clusters == ("m1", "m3")
    gone = reverted(drained({"m3": 3, "m4": 1}, m1=2, m2=2))  # its copy is deleted already
    assert current_placement(gone) == {"m1": 2, "m3": 2}


def test_a_reverted_drain_does_not_return_to_its_cluster_if_that_failed_while_its_replicas_were_held() -> None:
    leaving = TASK.but(from_cluster="m1", replicas=2)
    undone = reverted(drained({"m2": 2, "m3": 2}, (leaving,), m1=2, m2=2))
    assert current_placement(undone) == {"m2": 2, "m3": 2}
    assert undone.spec.graceful_eviction_tasks == (leaving,)


def test_replicas_of_an_evicted_cluster_that_are_nowhere_yet_are_placed_again() -> None:
    undone = reverted(drained({"m3": 2}, (TASK.but(from_cluster="m2", replicas=2),), m1=2, m2=2))
    assert current_placement(undone) == {"m1": 2, "m3": 2}
    undone = reverted(drained({"m4": 1}, (TASK.but(from_cluster="m2", replicas=2),), m1=2, m2=2))
    assert current_placement(undone) == {"m1": 2, "m4": 1}


def test_a_held_cluster_that_was_evicted_meanwhile_is_not_restored() -> None:
    subject = drained({"m3": 4}, (TASK.but(from_cluster="m2", replicas=2),), m1=2, m2=2)
    holds = (*subject.status.holds, held("m2", 2, "Drain"))
    subject = state.begin(subject, holds, subject.status.replacement)
    assert current_placement(reverted(subject)) == {"m1": 2, "m3": 2}


def test_a_reverted_move_restores_a_share_that_shrank_but_is_still_there() -> None:
    assert current_placement(reverted(drained({"m2": 1, "m3": 3}, m1=2, m2=2))) == {"m1": 2, "m2": 2}


def test_only_a_reverted_failback_counts_as_one() -> None:
    subject = moving("Rebalance", status_previous_placement=PreviousPlacement(healthy_since=NOON, reverted_failbacks=1))
    assert subject.status.replacement is not None
    undone = state.revert(subject, subject.status.replacement, NOON)
    assert undone.status.previous_placement == PreviousPlacement(reverted_failbacks=1)


def test_an_eviction_turns_a_share_into_a_task_with_its_replicas() -> None:
    evicted = state.evict_from(binding(clusters={"m1": 2, "m2": 1}), "m1", TASK)
    assert current_placement(evicted) == {"m2": 1}
    assert evicted.spec.graceful_eviction_tasks == (TASK.but(from_cluster="m1", replicas=2),)
    assert state.evict_from(evicted, "m1", TASK) == evicted


def test_an_eviction_from_a_cluster_without_a_share_changes_nothing() -> None:
    subject = binding(clusters={"m2": 1})
    assert state.evict_from(subject, "m1", TASK) == subject


def test_a_second_eviction_from_a_cluster_keeps_the_task_of_the_first() -> None:
    evicted = state.evict_from(binding(clusters={"m1": 2}), "m1", TASK)
    again = state.evict_from(state.place(evicted, targets(m1=1)), "m1", TASK.but(reason="other"))
    assert again.spec.graceful_eviction_tasks == evicted.spec.graceful_eviction_tasks


def test_a_cancelled_eviction_restores_the_whole_placement_if_nothing_new_is_healthy() -> None:
    evicted = state.remember_placement(binding(clusters={"m1": 3}), binding(clusters={"m1": 3}), NOON)
    evicted = state.place(state.evict_from(evicted, "m1", TASK), targets(m2=3))
    back = state.cancel(evicted, evicted.spec.graceful_eviction_tasks[0], {})
    assert current_placement(back) == {"m1": 3}
    assert (back.spec.graceful_eviction_tasks, back.status.previous_placement) == ((), None)


def test_a_cancelled_eviction_takes_back_only_replacements_that_are_not_ready() -> None:
    evicted = state.evict_from(binding(clusters={"m1": 3}, placement=DIVIDED), "m1", TASK)
    evicted = state.place(evicted, targets(m2=2, m3=1))
    back = state.cancel(evicted, evicted.spec.graceful_eviction_tasks[0], {"m2": 2})
    assert current_placement(back) == {"m1": 1, "m2": 2}


def test_a_cancelled_eviction_of_a_copy_gives_the_whole_copy_back() -> None:
    duplicated = Placement(replica_scheduling=ReplicaSchedulingStrategy(replica_scheduling_type="Duplicated"))
    for placement in (duplicated, Placement()):
        evicted = state.evict_from(binding(clusters={"m1": 3, "m2": 3}, placement=placement), "m1", TASK)
        back = state.cancel(evicted, evicted.spec.graceful_eviction_tasks[0], {"m2": 3})
        assert current_placement(back) == {"m1": 3, "m2": 3}


def test_a_healthy_replacement_prevents_that_the_previous_placement_is_restored() -> None:
    healthy = (status_item("m2"),)
    subject = binding(clusters={"m1": 3}, placement=DIVIDED, status_aggregated_status=healthy)
    evicted = state.evict_from(state.remember_placement(subject, subject, NOON), "m1", TASK)
    evicted = state.place(evicted, targets(m2=3))
    back = state.cancel(evicted, evicted.spec.graceful_eviction_tasks[0], {"m2": 3})
    assert current_placement(back) == {"m2": 3}
    assert back.status.previous_placement is not None


def test_replacements_in_a_cluster_that_grew_prevent_that_the_previous_placement_is_restored() -> None:
    subject = binding(clusters={"m1": 3, "m2": 1}, placement=DIVIDED, status_aggregated_status=(status_item("m2"),))
    evicted = state.evict_from(state.remember_placement(subject, subject, NOON), "m1", TASK)
    evicted = state.place(evicted, targets(m2=4))
    back = state.cancel(evicted, evicted.spec.graceful_eviction_tasks[0], {"m2": 4})
    assert current_placement(back) == {"m2": 4}


def test_a_previous_placement_with_another_share_of_the_recovered_cluster_is_not_restored() -> None:
    """The workload has grown since: the old placement would take replicas away from it."""
    subject = binding(clusters={"m1": 5}, placement=DIVIDED, status_previous_placement=PREVIOUSLY_THREE)
    evicted = state.place(state.evict_from(subject, "m1", TASK), targets(m2=5))
    back = state.cancel(evicted, evicted.spec.graceful_eviction_tasks[0], {})
    assert current_placement(back) == {"m1": 5}
    assert back.status.previous_placement == PREVIOUSLY_THREE


def test_a_cluster_that_is_still_being_left_gets_nothing_when_another_eviction_is_cancelled() -> None:
    subject = binding(clusters={"m1": 2, "m3": 2}, placement=DIVIDED)
    evicted = state.evict_from(state.remember_placement(subject, subject, NOON), "m1", TASK)
    evicted = state.place(state.evict_from(evicted, "m3", TASK), targets(m2=4))
    back = state.cancel(evicted, evicted.spec.graceful_eviction_tasks[0], {})
    assert [task.from_cluster for task in back.spec.graceful_eviction_tasks] == ["m3"]
    assert "m3" not in current_placement(back)


def test_replicas_that_are_given_back_only_shrink_shares() -> None:
    subject = binding(clusters={"m1": 3})
    assert current_placement(state.give_back(subject, targets(m1=1))) == {"m1": 1}
    with pytest.raises(AssertionError):
        state.give_back(subject, targets(m1=4))


def test_a_blocked_cluster_is_listed_once_with_the_latest_time() -> None:
    twice = state.block(state.block(binding(), "m1", NOON), "m1", NOON + MINUTE)
    assert twice.spec.active_eviction_history == (ActiveEviction(cluster_name="m1", creation_timestamp=NOON + MINUTE),)
    assert state.with_history(twice, ()).spec.active_eviction_history == ()


def test_the_first_placement_that_was_left_is_the_one_to_return_to() -> None:
    first, second = binding(clusters={"m1": 3}), binding(clusters={"m2": 3})
    left = state.remember_placement(second, first, NOON)
    assert left.status.previous_placement is not None
    assert left.status.previous_placement.clusters == targets(m1=3)
    assert state.remember_placement(left, left, NOON + MINUTE) == left
    timed = state.time_return(left, NOON + MINUTE, reverted=2)
    assert timed.status.previous_placement == left.status.previous_placement.but(
        healthy_since=NOON + MINUTE, reverted_failbacks=2
    )
    assert state.forget_placement(timed).status.previous_placement is None


def test_a_dropped_cluster_is_in_no_field() -> None:
    subject = state.evict_from(moving(), "m2", TASK)
    gone = state.drop_cluster(subject, "m1")
    assert (gone.status.holds, gone.status.replacement) == ((), None)
    assert state.drop_cluster(subject, "m2").spec.graceful_eviction_tasks == ()
    two = state.begin(subject, (held("m1"), held("m3")), StateBeforeMove(before=targets(m1=3, m3=3)))
    rest = state.drop_cluster(two, "m1")
    assert rest.status.holds == (held("m3"),)
    assert rest.status.replacement == StateBeforeMove(before=targets(m3=3))


# --- no other module builds these fields ---


class BuilderCheck(ast.NodeVisitor):
    """Finds expressions of a module that build a field of a placement.

    A field name that only one type declares identifies the type. `clusters` is declared by several types; a copy of a
    local variable that the function annotates or constructs as one of the others is not a binding.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.found: list[tuple[int, str]] = []
        self._imported = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        self._local_types: dict[str, str] = {}
        self.visit(tree)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer = self._local_types
        self._local_types = dict(outer)
        for argument in (*node.args.args, *node.args.kwonlyargs):
            if isinstance(argument.annotation, ast.Name):
                self._local_types[argument.arg] = argument.annotation.id
        self.generic_visit(node)
        self._local_types = outer

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Call(func=ast.Name(type_))):
                self._local_types[name] = type_
            case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(key))]) if key in unique_wire_names():
                self.found.append((node.lineno, f"[{key!r}] = ..."))

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        keywords = {keyword.arg for keyword in node.keywords if keyword.arg}
        match node.func:
            case ast.Attribute(receiver, "but" | "_replace"):
                self._check_copy(node, receiver, keywords)
            case ast.Attribute(ast.Name("structs") | ast.Attribute(attr="structs"), "replace") | ast.Name("replace"):
                self._check_copy(node, node.args[0] if node.args else node.func, keywords)
            case ast.Name(alias) if self._imported.get(alias, "").startswith("trimtab.api.kinds.work."):
                name = self._imported[alias].rpartition(".")[2]
                built = keywords & {"BindingSpec": set(SPEC_FIELDS), "BindingStatus": set(STATUS_FIELDS)}.get(
                    name, set()
                )
                if built or name in VALUES:
                    self.found.append((node.lineno, f"{name}({', '.join(sorted(built))})"))

    def _check_copy(self, node: ast.Call, receiver: ast.expr, keywords: set[str]) -> None:
        built = keywords & {*SPEC_FIELDS, *STATUS_FIELDS}
        if built == {"clusters"} and isinstance(receiver, ast.Name):
            known = self._local_types.get(receiver.id, "BindingSpec")
            built = built if known == "BindingSpec" else set()
        if built:
            self.found.append((node.lineno, f"a copy with {', '.join(sorted(built))}"))

    def visit_Dict(self, node: ast.Dict) -> None:
        self.generic_visit(node)
        keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
        if built := keys & unique_wire_names():
            self.found.append((node.lineno, f"a dict with {', '.join(sorted(built))}"))


def unique_wire_names() -> set[str]:
    names = {"gracefulEvictionTasks", "activeEvictionHistory", "rescheduleTriggeredAt", "previousPlacement"}
    wire = {field.encode_name for type_ in (BindingSpec, BindingStatus) for field in msgspec.structs.fields(type_)}
    assert names <= wire
    return names


def built_in(source: str) -> list[tuple[int, str]]:
    return BuilderCheck(ast.parse(source)).found


def modules_outside_of_the_machine() -> Iterator[Path]:
    """Every module except the machine and the kinds, which convert whole objects between versions."""
    for path in sorted(SRC.rglob("*.py")):
        if path != BUILDER and "kinds" not in path.parts:
            yield path


@pytest.mark.parametrize("path", list(modules_outside_of_the_machine()), ids=lambda path: str(path.relative_to(SRC)))
def test_no_other_module_builds_a_field_that_carries_a_placement(path: Path) -> None:
    found = built_in(path.read_text())
    assert not found, f"{path.name} builds {found}: use a function of controllers/movement/state.py"


@pytest.mark.parametrize(
    "source",
    [
        "binding.but(spec=binding.spec.but(clusters=kept))",
        "spec.but(clusters=kept)",
        "binding.status.but(holds=())",
        "status.but(previous_placement=None)",
        "msgspec.structs.replace(spec, graceful_eviction_tasks=())",
        "from trimtab.api.kinds.work import BindingSpec as Spec\nSpec(clusters=c)",
        "from trimtab.api.kinds.work import HeldReplicas\nHeldReplicas(cluster='m1')",
        "patch = {'spec': {'rescheduleTriggeredAt': None}}",
        "raw['spec']['gracefulEvictionTasks'] = []",
    ],
)
def test_the_check_finds_a_builder(source: str) -> None:
    assert built_in(source)


def test_the_check_does_not_confuse_other_types_with_a_binding() -> None:
    assert not built_in("def f(page: RejectedClusters):\n    return page.but(clusters=())")
    assert not built_in("from x import BindingSpec\nBindingSpec(clusters=c)")
    assert not built_in("binding.status.but(aggregated_status=())")


def test_the_machine_builds_every_field() -> None:
    source = BUILDER.read_text()
    for field in (*SPEC_FIELDS, *STATUS_FIELDS):
        assert f"{field}=" in source, field


def test_field_names_other_than_clusters_identify_the_type() -> None:
    """The check resolves a copy by the name of the field; a second type with such a field would need more."""
    load_declarations()
    allowed = {BindingSpec: set(SPEC_FIELDS), BindingStatus: set(STATUS_FIELDS)}
    for type_ in all_value_types(Value):
        names = {field.name for field in msgspec.structs.fields(type_)} & {*SPEC_FIELDS[1:], *STATUS_FIELDS}
        assert names <= allowed.get(type_, set()), type_


def all_value_types(type_: type[Value]) -> Iterator[type[Value]]:
    for child in type_.__subclasses__():
        yield child
        yield from all_value_types(child)


def test_every_value_of_the_check_is_a_kind_of_work() -> None:
    assert all(inspect.isclass(getattr(work_kinds, name)) for name in VALUES)


@pytest.mark.parametrize(
    ("now", "replicas", "left", "ready", "after"),
    [
        ({"m2": 3}, 3, 3, {"m2": 0}, {"m1": 3}),
        ({"m2": 5}, 5, 3, {"m2": 0}, {"m1": 3, "m2": 2}),
        ({"m2": 1}, 4, 3, {"m2": 1}, {"m1": 3, "m2": 1}),
        ({"m2": 1}, 9, 3, {"m2": 1}, {"m1": 3, "m2": 1}),
        ({"m2": 6}, 5, 3, {"m2": 9}, {"m2": 6}),
        ({"m2": 2, "m3": 2}, 4, 3, {"m2": 2, "m3": 0}, {"m1": 2, "m2": 2}),
    ],
    ids=["all back", "no more than it had", "what is missing", "scaled up", "scaled down", "from the unready one"],
)
def test_a_recovered_cluster_gets_back_what_it_had_and_nothing_that_serves_elsewhere(
    now: dict[str, int], replicas: int, left: int, ready: dict[str, int], after: dict[str, int]
) -> None:
    task = TASK.but(from_cluster="m1", replicas=left)
    subject = binding(clusters=now, replicas=replicas, placement=DIVIDED, graceful_eviction_tasks=(task,))
    assert current_placement(state.cancel(subject, task, ready)) == after


@pytest.mark.parametrize(
    ("now", "healthy", "restored"),
    [
        ({"m2": 1, "m3": 2}, (), True),
        ({"m2": 1, "m3": 2}, ("m2",), True),
        ({"m2": 1, "m3": 2}, ("m3",), False),
        ({"m2": 2, "m3": 1}, (), False),
    ],
    ids=["nothing new is healthy", "an old one is healthy", "a new one is healthy", "an old one grew"],
)
def test_the_placement_from_before_an_eviction_is_restored_only_while_nothing_depends_on_the_new_one(
    now: dict[str, int], healthy: tuple[str, ...], restored: bool
) -> None:
    task = TASK.but(from_cluster="m1", replicas=2)
    before = PreviousPlacement(clusters=targets(m1=2, m2=1), since=NOON)
    items = tuple(status_item(name, "Healthy" if name in healthy else "Unhealthy") for name in now)
    subject = binding(
        clusters=now,
        placement=DIVIDED,
        graceful_eviction_tasks=(task,),
        status_previous_placement=before,
        status_aggregated_status=items,
    )
    back = state.cancel(subject, task, dict.fromkeys(now, 9))
    assert (current_placement(back) == {"m1": 2, "m2": 1}) is restored


def test_the_state_before_the_first_of_several_moves_is_kept() -> None:
    subject = moving()
    assert state.state_before_move(subject, {"m2": 1}) == subject.status.replacement
    finished = subject.but(status=subject.status.but(holds=()))
    assert state.state_before_move(finished, {"m2": 1}).before == subject.spec.clusters
    unknown = subject.but(status=subject.status.but(replacement=None))
    assert state.state_before_move(unknown, {"m2": 1}).before == subject.spec.clusters
