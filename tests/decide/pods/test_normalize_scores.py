import numpy as np

from trimtab.decide.pods.normalize_scores import fewest_first, most_first


def test_highest_raw_score_becomes_one_hundred() -> None:
    assert most_first(np.array([0, 2, 8])).tolist() == [0, 25, 100]
    assert most_first(np.array([0, 0])).tolist() == [0, 0]


def test_reversed_scores_are_best_where_raw_scores_are_zero() -> None:
    assert fewest_first(np.array([0, 2, 8])).tolist() == [100, 75, 0]
    assert fewest_first(np.array([0, 0])).tolist() == [100, 100]
