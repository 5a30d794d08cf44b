from trimtab.tables import table


def test_columns_are_as_wide_as_their_widest_cell_and_three_spaces_apart() -> None:
    text = table(("NAME", "AGE"), [("a", 1), ("longer", 22)])
    assert text.splitlines() == ["NAME     AGE", "a        1", "longer   22"]


def test_lines_have_no_trailing_spaces() -> None:
    assert table(("NAME", "TAINTS"), [("a", "")]).splitlines() == ["NAME   TAINTS", "a"]
