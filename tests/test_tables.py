from trimtab.tables import format_table


def test_columns_are_as_wide_as_their_widest_cell_and_three_spaces_apart() -> None:
    text = format_table(("NAME", "AGE"), [("a", 1), ("longer", 22)])
    assert text.splitlines() == ["NAME     AGE", "a        1", "longer   22"]


def test_lines_have_no_trailing_spaces() -> None:
    assert format_table(("NAME", "TAINTS"), [("a", "")]).splitlines() == ["NAME   TAINTS", "a"]
