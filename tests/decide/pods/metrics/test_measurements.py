from trimtab.decide.pods.metrics.measurements import UsageMetrics, shift_averages, update_averages


def test_average_follows_a_change_by_a_tenth_per_measurement() -> None:
    once = update_averages({}, {"a": {"cpu": 1000, "memory": 10}})
    assert once == {"a": {"cpu": 1000, "memory": 10}}
    assert update_averages(once, {"a": {"cpu": 2000, "memory": 10}}) == {"a": {"cpu": 1100, "memory": 10}}


def test_removed_nodes_are_dropped_and_new_ones_start_with_current_usage() -> None:
    assert update_averages({"gone": {"cpu": 5}}, {"new": {"cpu": 7}}) == {"new": {"cpu": 7}}


def test_averages_round_half_up() -> None:
    assert update_averages({"a": {"cpu": 5}}, {"a": {"cpu": 0}}) == {"a": {"cpu": 5}}


def test_smoothed_usage_is_the_average_or_else_the_current_usage() -> None:
    measures = UsageMetrics({"a": {"cpu": 9}, "b": {"cpu": 9}}, {("x", "p"): {"cpu": 3}}, {"a": {"cpu": 1}})
    assert (measures.smoothed_usage("a"), measures.smoothed_usage("b"), measures.smoothed_usage("c")) == (
        {"cpu": 1},
        {"cpu": 9},
        None,
    )
    assert (measures.cpu_of(("x", "p")), measures.cpu_of(("x", "q"))) == (3, 0)


def test_moved_pod_shifts_its_usage_between_averages() -> None:
    before = {"a": {"cpu": 9, "memory": 2}, "b": {"cpu": 1, "memory": 0}}
    after = {"a": {"cpu": 5, "memory": 0}, "b": {"cpu": 5, "memory": 3}}
    assert shift_averages(before, {"cpu": 4, "memory": 3}, "a", "b") == after
    assert shift_averages(before, {"cpu": 4}, "x", "") == before
