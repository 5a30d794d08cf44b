"""The recorded answers of Karmada's webhooks about placements are ours too."""

from pathlib import Path

from compat.families.karmada_validation import run

GOLDEN = Path(__file__).parent / "golden" / "karmada-validation.jsonl.gz"


def test_placements_are_filled_in_and_refused_as_karmada_does() -> None:
    results = list(run(GOLDEN))
    assert len(results) == 97
    assert [(name, difference) for name, agrees, difference in results if not agrees] == []
