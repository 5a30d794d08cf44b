import numpy as np

from trimtab.decide.pods.normalize_scores import normalize_scores, normalize_scores_reversed


def test_highest_raw_score_becomes_one_hundred() -> None:
    assert normalize_scores(np.array([0, 2, 8])).tolist() == [0, 25, 100]
    assert normalize_scores(np.array([0, 0])).tolist() == [0, 0]


def test_reversed_scores_are_best_where_raw_scores_are_zero() -> None:
    assert normalize_scores_reversed(np.array([0, 2, 8])).tolist() == [100, 75, 0]
    assert normalize_scores_reversed(np.array([0, 0])).tolist() == [100, 100]
