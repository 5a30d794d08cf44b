from hypothesis import given
from hypothesis import strategies as st

from trimtab.decide.target_list import TargetList, replace_targets


@given(st.integers(1, 1500), st.data())
def test_a_changed_sequence_is_that_of_a_list_and_the_old_one_stays(size: int, data: st.DataObject) -> None:
    changes = data.draw(st.dictionaries(st.integers(0, size - 1), st.text(max_size=1), max_size=5))
    before = [str(number) for number in range(size)]
    expected = before.copy()
    for place, text in changes.items():
        expected[place] = text
    first = replace_targets(before, {})
    after = replace_targets(first, changes)
    assert list(after) == expected
    assert [after[place] for place in (0, size - 1, -1, *changes)] == [
        expected[place] for place in (0, size - 1, -1, *changes)
    ]
    assert list(first) == before
    assert len(after) == size


def test_it_is_read_like_a_list() -> None:
    numbers = TargetList.of(range(1000))
    assert numbers[990:] == list(range(990, 1000))
    assert 999 in numbers
    assert 1000 not in numbers
