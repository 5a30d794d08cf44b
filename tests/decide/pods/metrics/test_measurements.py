from trimtab.decide.pods.metrics.measurements import Measures, averaged, shifted


def test_average_follows_a_change_by_a_tenth_per_measurement() -> None:
    once = averaged({}, {"a": {"cpu": 1000, "memory": 10}})
    assert once == {"a": {"cpu": 1000, "memory": 10}}
    assert averaged(once, {"a": {"cpu": 2000, "memory": 10}}) == {"a": {"cpu": 1100, "memory": 10}}


def test_removed_nodes_are_dropped_and_new_ones_start_with_current_usage() -> None:
    assert averaged({"gone": {"cpu": 5}}, {"new": {"cpu": 7}}) == {"new": {"cpu": 7}}


def test_averages_round_half_up() -> None:
    assert averaged({"a": {"cpu": 5}}, {"a": {"cpu": 0}}) == {"a": {"cpu": 5}}


def test_smoothed_usage_is_the_average_or_else_the_current_usage() -> None:
    measures = Measures({"a": {"cpu": 9}, "b": {"cpu": 9}}, {("x", "p"): {"cpu": 3}}, {"a": {"cpu": 1}})
    assert (measures.steady("a"), measures.steady("b"), measures.steady("c")) == ({"cpu": 1}, {"cpu": 9}, None)
    assert (measures.cpu_of(("x", "p")), measures.cpu_of(("x", "q"))) == (3, 0)


def test_moved_pod_shifts_its_usage_between_averages() -> None:
    before = {"a": {"cpu": 9, "memory": 2}, "b": {"cpu": 1, "memory": 0}}
    after = {"a": {"cpu": 5, "memory": 0}, "b": {"cpu": 5, "memory": 3}}
    assert shifted(before, {"cpu": 4, "memory": 3}, "a", "b") == after
    assert shifted(before, {"cpu": 4}, "x", "") == before
