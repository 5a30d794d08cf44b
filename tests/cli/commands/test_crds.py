"""`trimtab crds` prints definitions that any Kubernetes API server takes."""

import yaml
from click.testing import CliRunner

from trimtab.cli.commands.crds import command
from trimtab.errors import InputFault


def printed(*arguments: str) -> list[dict]:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0
    return list(yaml.safe_load_all(result.output))


def test_every_kind_of_ours_is_there_and_none_of_kubernetes() -> None:
    names = {crd["metadata"]["name"] for crd in printed()}
    assert {
        "clusters.cluster.karmada.io",
        "placements.cluster.open-cluster-management.io",
        "moves.trimtab.dev",
    } <= names
    assert not any(name.startswith(("pods", "deployments")) for name in names)


def test_no_definition_is_too_large_or_leans_on_anchors() -> None:
    text = CliRunner().invoke(command).output
    assert "&id" not in text
    assert max(len(part) for part in text.split("\n---\n")) < 256 * 1024


def test_a_group_can_be_picked() -> None:
    assert {crd["spec"]["group"] for crd in printed("--group", "trimtab.dev")} == {"trimtab.dev"}


def test_old_versions_are_served_only_where_something_converts_them() -> None:
    def served(*arguments: str) -> dict[str, bool]:
        (crd,) = (c for c in printed(*arguments) if c["metadata"]["name"] == "resourcebindings.work.karmada.io")
        return {version["name"]: version["served"] for version in crd["spec"]["versions"]}

    assert served() == {"v1alpha1": False, "v1alpha2": True}
    assert served("--conversion-url", "https://127.0.0.1:9443/convert") == {"v1alpha1": True, "v1alpha2": True}


def test_a_group_without_kinds_is_refused_and_the_others_are_named() -> None:
    result = CliRunner().invoke(command, ["--group", "nonsense"])
    assert isinstance(result.exception, InputFault)
    assert "policy.karmada.io" in str(result.exception)
