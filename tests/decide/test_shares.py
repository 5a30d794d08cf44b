import numpy as np

from trimtab.decide.shares import ReplicaShares, nonzero_shares, one_share, shares_in_order, shares_of, sort_by_name


def test_one_number_stands_for_all_columns() -> None:
    assert ReplicaShares(np.array([0, 2]), 3).by_column() == {0: 3, 2: 3}
    assert ReplicaShares([0, 2], [1, 4]).by_column() == {0: 1, 2: 4}


def test_columns_without_replicas_are_left_out() -> None:
    assert nonzero_shares([0, 1, 2], [2, 0, 1]).by_column() == {0: 2, 2: 1}
    assert shares_of({2: 1, 0: 0}).by_column() == {2: 1}
    assert shares_of({2: 1, 0: 0}, keep_empty=True).by_column() == {0: 0, 2: 1}
    assert one_share(4, 0).by_column() == {}


def test_shares_in_order_of_selection_are_returned_in_name_order() -> None:
    assert shares_in_order([5, 1, 3], [4, 2]) == ReplicaShares([1, 5], [2, 4])
    assert shares_in_order([5, 1, 3], [1, 1, 0]) == ReplicaShares([1, 5], 1)
    assert sort_by_name([5, 1, 3]) == [1, 3, 5]
