"""`trimtab taint`: which arguments it refuses; `test_cluster_taints` tests what it writes."""

from click.testing import CliRunner

from trimtab.cli.commands.taint import command


def test_other_kinds_and_malformed_taints_are_refused() -> None:
    node = CliRunner().invoke(command, ["node/a", "k:NoExecute"])
    assert "'node/a' is not a cluster; use cluster/NAME" in str(node.exception)
    wrong = CliRunner().invoke(command, ["cluster/a", "k"])
    assert str(wrong.exception).startswith("'k' is not a taint; use KEY[=VALUE]:EFFECT with one of")
    unnamed = CliRunner().invoke(command, ["cluster/", "k:NoExecute"])
    assert "'cluster/' names no cluster" in str(unnamed.exception)
