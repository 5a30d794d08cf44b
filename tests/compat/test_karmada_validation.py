"""Our validation and defaulting of placements agree with recorded responses of Karmada's webhooks."""

from pathlib import Path

from compat.families.karmada_validation import run

GOLDEN = Path(__file__).parent / "golden" / "karmada-validation.jsonl.gz"


def test_placements_are_defaulted_and_refused_like_karmada() -> None:
    results = list(run(GOLDEN))
    assert len(results) == 97
    assert [(name, difference) for name, agrees, difference in results if not agrees] == []
