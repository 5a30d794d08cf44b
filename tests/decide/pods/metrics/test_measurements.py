from trimtab.decide.pods.metrics.measurements import Measures, averaged, shifted


def test_an_average_follows_a_change_by_a_tenth_a_look() -> None:
    once = averaged({}, {"a": {"cpu": 1000, "memory": 10}})
    assert once == {"a": {"cpu": 1000, "memory": 10}}
    assert averaged(once, {"a": {"cpu": 2000, "memory": 10}}) == {"a": {"cpu": 1100, "memory": 10}}


def test_nodes_that_are_gone_are_forgotten_and_new_ones_begin_where_they_are() -> None:
    assert averaged({"gone": {"cpu": 5}}, {"new": {"cpu": 7}}) == {"new": {"cpu": 7}}


def test_half_a_thousandth_counts_as_a_whole_one() -> None:
    assert averaged({"a": {"cpu": 5}}, {"a": {"cpu": 0}}) == {"a": {"cpu": 5}}


def test_what_a_node_uses_steadily_is_its_average_if_somebody_keeps_one() -> None:
    measures = Measures({"a": {"cpu": 9}, "b": {"cpu": 9}}, {("x", "p"): {"cpu": 3}}, {"a": {"cpu": 1}})
    assert (measures.steady("a"), measures.steady("b"), measures.steady("c")) == ({"cpu": 1}, {"cpu": 9}, None)
    assert (measures.cpu_of(("x", "p")), measures.cpu_of(("x", "q"))) == (3, 0)


def test_a_pod_that_was_moved_takes_its_use_along() -> None:
    before = {"a": {"cpu": 9, "memory": 2}, "b": {"cpu": 1, "memory": 0}}
    after = {"a": {"cpu": 5, "memory": 0}, "b": {"cpu": 5, "memory": 3}}
    assert shifted(before, {"cpu": 4, "memory": 3}, "a", "b") == after
    assert shifted(before, {"cpu": 4}, "x", "") == before
