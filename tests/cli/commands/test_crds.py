"""`trimtab crds` prints definitions that any Kubernetes API server accepts."""

import yaml
from click.testing import CliRunner

from trimtab.cli.commands.crds import command
from trimtab.errors import InputError


def print_crds(*arguments: str) -> list[dict]:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0
    return list(yaml.safe_load_all(result.output))


def test_all_custom_kinds_are_printed_and_no_builtin_kind() -> None:
    names = {crd["metadata"]["name"] for crd in print_crds()}
    assert {
        "clusters.cluster.karmada.io",
        "placements.cluster.open-cluster-management.io",
        "moves.trimtab.dev",
    } <= names
    assert not any(name.startswith(("pods", "deployments")) for name in names)


def test_definitions_have_no_anchors_and_stay_below_the_size_limit() -> None:
    text = CliRunner().invoke(command).output
    assert "&id" not in text
    assert max(len(part) for part in text.split("\n---\n")) < 256 * 1024


def test_group_option_selects_kinds() -> None:
    assert {crd["spec"]["group"] for crd in print_crds("--group", "trimtab.dev")} == {"trimtab.dev"}


def test_old_versions_are_served_only_with_a_conversion_webhook() -> None:
    def served(*arguments: str) -> dict[str, bool]:
        (crd,) = (c for c in print_crds(*arguments) if c["metadata"]["name"] == "resourcebindings.work.karmada.io")
        return {version["name"]: version["served"] for version in crd["spec"]["versions"]}

    assert served() == {"v1alpha1": False, "v1alpha2": True}
    assert served("--conversion-url", "https://127.0.0.1:9443/convert") == {"v1alpha1": True, "v1alpha2": True}


def test_unknown_group_is_refused_with_the_known_ones() -> None:
    result = CliRunner().invoke(command, ["--group", "nonsense"])
    assert isinstance(result.exception, InputError)
    assert "policy.karmada.io" in str(result.exception)


def test_profile_upstream_has_no_columns_of_ours() -> None:
    def columns(*arguments: str) -> list[str]:
        (crd,) = (
            crd
            for crd in print_crds("--group", "apps.karmada.io", *arguments)
            if "rebalancer" in crd["metadata"]["name"]
        )
        return [column["name"] for column in crd["spec"]["versions"][0].get("additionalPrinterColumns", ())]

    assert "PROGRESS" in columns()
    assert columns("--profile", "upstream") == []
