"""The list of safety rules for `make mutants` fits the code; the removals themselves are run there."""

import ast

import pytest

from mutants.mutant import Mutant
from mutants.rules import MUTANTS

MIN_RULES = 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.file}:{mutant.rule}")
def test_entry_applies_to_the_code(mutant: Mutant) -> None:
    assert mutant.problem() == ""
    assert mutant.tests
    ast.parse(mutant.mutated_source())
    assert ast.dump(ast.parse(mutant.mutated_source())) != ast.dump(ast.parse(mutant.path.read_text()))


def test_every_rule_is_listed_once() -> None:
    assert len({mutant.rule for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.file, mutant.find, mutant.replacement) for mutant in MUTANTS}) == len(MUTANTS)
    assert len(MUTANTS) >= MIN_RULES
