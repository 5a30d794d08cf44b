"""helm accepts and renders the charts with every kind of values."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from distribution.tools import ROOT, run, tool

from trimtab.cli.support.installation import installation_objects, without_helm
from trimtab.members.member_rights import DEFAULT_RIGHTS, MemberRights
from trimtab.runtime.propagatable import parse_kinds

CHARTS = ROOT / "charts"
DIGEST = f"sha256:{'a' * 64}"
MATRIX = {
    "defaults": (),
    "one replica": ("replicas=1",),
    "upstream": ("profile=upstream", "settings.evacuate-after-seconds=60"),
    "digest": ("image.registry=registry.example.com", f"image.digest={DIGEST}"),
    "monitoring": (
        "metrics.serviceMonitor.enabled=true",
        "metrics.rules.enabled=true",
        "metrics.dashboards.enabled=true",
    ),
    "closed": ("networkPolicy.enabled=true", "rbac.aggregate=false", "podDisruptionBudget.enabled=false"),
    "webhook": (
        "webhook.enabled=true",
        "webhook.pods=true",
        "webhook.budgetTarget=Pods",
        "podControllers.enabled=true",
    ),
    "cert-manager": (
        "webhook.enabled=true",
        "webhook.certManager.enabled=true",
        "webhook.certManager.issuerRef.name=ca",
    ),
    "agents by hand": ("rbac.approveAgents=false",),
    "few kinds": ("propagation.kinds.apps={deployments}", r"propagation.kinds.example\.com={*}"),
    "shared members": ("push.enabled=true", "push.replicas=3"),
    "everything": (
        "push.enabled=true",
        "webhook.enabled=true",
        "webhook.pods=true",
        "podControllers.enabled=true",
        "podControllers.replicas=2",
        "networkPolicy.enabled=true",
        "podAnnotations.seen=yes",
        "podLabels.team=a",
        "nodeSelector.disk=ssd",
        "push.extraArgs={--karmada-metrics}",
    ),
    "existing account": ("serviceAccount.create=false", "serviceAccount.name=mine", "rbac.create=false"),
}


def render(chart: str, *values: str) -> list[dict[str, Any]]:
    return render_as("release", chart, *values)


def render_as(release: str, chart: str, *values: str) -> list[dict[str, Any]]:
    flags = [flag for value in values for flag in ("--set", value)]
    text = run(
        tool("helm"),
        "template",
        release,
        str(CHARTS / chart),
        "-n",
        "trimtab-system",
        "--kube-version",
        "1.32.0",
        *flags,
    )
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [obj for obj in objects if obj["kind"] == kind]


@pytest.mark.parametrize("chart", ["trimtab", "trimtab-crds"])
def test_helm_lint_is_clean(chart: str) -> None:
    assert "0 chart(s) failed" in run(tool("helm"), "lint", "--strict", str(CHARTS / chart))


def test_agent_chart_needs_the_name_of_the_cluster() -> None:
    with pytest.raises(AssertionError, match="clusterName"):
        render("trimtab-agent")
    (deployment,) = of_kind(render("trimtab-agent", "clusterName=east"), "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"][:2] == ["agent", "east"]
    assert deployment["spec"]["strategy"]["type"] == "Recreate"


def test_agent_has_the_rights_that_join_gives_to_a_control_plane() -> None:
    (role,) = of_kind(render("trimtab-agent", "clusterName=east"), "ClusterRole")
    assert role["rules"] == DEFAULT_RIGHTS.rules()
    values = ("clusterName=east", "rbac.allowRbac=true", r"rbac.kinds.example\.com={widgets}", "rbac.kinds.batch=null")
    (role,) = of_kind(render("trimtab-agent", *values), "ClusterRole")
    wanted = MemberRights(parse_kinds("default,widgets.example.com"), allow_rbac=True).rules()
    assert sorted(map(str, role["rules"])) == sorted(str(rule) for rule in wanted if rule.get("apiGroups") != ["batch"])
    (own,) = of_kind(render("trimtab-agent", "clusterName=east", "host.server=https://host"), "Role")
    assert own["metadata"]["namespace"] == "trimtab-system"


def test_controllers_read_and_update_only_the_chosen_kinds() -> None:
    objects = render("trimtab", *MATRIX["few kinds"])
    (role,) = [obj for obj in of_kind(objects, "ClusterRole") if obj["metadata"]["name"] == "release-trimtab"]
    assert not [rule for rule in role["rules"] if "*" in rule["apiGroups"]]
    assert {"deployments", "deployments/status"} <= {name for rule in role["rules"] for name in rule["resources"]}
    (deployment,) = of_kind(objects, "Deployment")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--kinds=deployments.apps,*.example.com" in arguments
    assert parse_kinds("deployments.apps,*.example.com")


@pytest.mark.parametrize("name", MATRIX)
def test_chart_renders(name: str) -> None:
    objects = render("trimtab", *MATRIX[name])
    for deployment in of_kind(objects, "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]
    for obj in objects:
        assert obj["metadata"]["labels"]["app.kubernetes.io/instance"] == "release"


def test_values_change_what_they_name() -> None:
    assert of_kind(render("trimtab", *MATRIX["one replica"]), "PodDisruptionBudget") == []
    (deployment,) = of_kind(render("trimtab", *MATRIX["digest"]), "Deployment")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == f"registry.example.com/trimtab@{DIGEST}"
    monitored = render("trimtab", *MATRIX["monitoring"])
    (rules,) = of_kind(monitored, "PrometheusRule")
    assert rules["spec"]["groups"]
    (dashboards,) = [obj for obj in of_kind(monitored, "ConfigMap") if "dashboards" in obj["metadata"]["name"]]
    assert list(dashboards["data"]) == ["trimtab.json"]
    assert of_kind(render("trimtab", *MATRIX["existing account"]), "ClusterRole") == []


WRONG_VALUES = {
    "replicas=many": "/replicas",
    "profile=other": "/profile",
    "image.digest=latest": "/image/digest",
    "image.tag=a b": "/image/tag",
    "unknown=1": "unknown",
    "webhok.enabled=true": "webhok",
    "settings.evacuate-after=60": "evacuate-after",
    "settings.failover=perhaps": "/settings/failover",
    "imagePullSecrets={mine}": "/imagePullSecrets/0",
    "podDisruptionBudget.maxUnavailable=half": "/podDisruptionBudget/maxUnavailable",
    r"podLabels.app\.kubernetes\.io/name=mine": "app.kubernetes.io/name",
    "webhook.pods=true": "webhook.pods needs webhook.enabled=true",
    "webhook.enabled=true,webhook.certManager.enabled=true": "needs webhook.certManager.issuerRef.name",
    "serviceAccount.create=false": "needs serviceAccount.name",
    "propagation.kinds.apps={Deployment}": "/propagation/kinds/apps/0",
    "propagation.kinds.apps={deployments},podControllers.enabled=true": "podControllers as a release of its own",
}
"""Values with what the refusal must name."""


@pytest.mark.parametrize("value", WRONG_VALUES)
def test_wrong_values_are_refused_by_name(value: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(WRONG_VALUES[value])):
        render("trimtab", value)


def test_unknown_groups_are_refused() -> None:
    with pytest.raises(AssertionError, match="/groups/0"):
        render("trimtab-crds", "groups={trimtab.deb}")


def pods_of(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod templates of all Deployments, by component."""
    templates = [obj["spec"]["template"] for obj in of_kind(objects, "Deployment")]
    return {template["metadata"]["labels"]["app.kubernetes.io/component"]: template for template in templates}


def test_all_pods_are_measured_guarded_and_placed_alike() -> None:
    objects = render("trimtab", *MATRIX["everything"])
    pods = pods_of(objects)
    assert set(pods) == {"controllers", "push", "pods", "webhook"}
    (service,) = [obj for obj in of_kind(objects, "Service") if obj["metadata"]["name"].endswith("-metrics")]
    policies = {obj["metadata"]["name"]: obj["spec"] for obj in of_kind(objects, "NetworkPolicy")}
    for template in pods.values():
        labels = template["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
        assert policies["release-trimtab"]["podSelector"]["matchLabels"].items() <= labels.items()
        assert (template["metadata"]["annotations"], labels["team"]) == ({"seen": "yes"}, "a")
        assert template["spec"]["nodeSelector"] == {"disk": "ssd"}
    hook = policies["release-trimtab-webhook"]
    assert hook["podSelector"]["matchLabels"].items() <= pods["webhook"]["metadata"]["labels"].items()
    assert [port["port"] for rule in hook["ingress"] for port in rule["ports"]] == ["webhook"]
    budgets = {obj["metadata"]["name"] for obj in of_kind(objects, "PodDisruptionBudget")}
    assert budgets == {f"release-trimtab{part}" for part in ("", "-push", "-pods", "-webhook")}
    assert "--karmada-metrics" in pods["push"]["spec"]["containers"][0]["args"]


def test_no_rights_are_given_without_rbac() -> None:
    objects = render("trimtab", *MATRIX["everything"], "rbac.create=false")
    assert [obj["kind"] for obj in objects if "Role" in obj["kind"]] == []


def test_crds_are_kept_and_groups_can_be_left_out() -> None:
    everything = render("trimtab-crds")
    definitions = of_kind(everything, "CustomResourceDefinition")
    assert {obj["metadata"]["annotations"]["helm.sh/resource-policy"] for obj in definitions} == {"keep"}
    policies = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert {obj["kind"] for obj in everything} == {"CustomResourceDefinition", *policies}
    own = render("trimtab-crds", "groups={trimtab.dev}")
    assert {obj["spec"]["group"] for obj in of_kind(own, "CustomResourceDefinition")} == {"trimtab.dev"}
    assert policies.isdisjoint(obj["kind"] for obj in render("trimtab-crds", "admissionPolicies=false"))


def test_install_without_helm_creates_what_the_chart_renders() -> None:
    rendered = without_helm(render_as("trimtab", "trimtab", "image.registry=registry.example.com"))
    _, *own = installation_objects(rendered_image(rendered))
    assert own == rendered
    other = installation_objects("mirror/trimtab:1", "elsewhere")
    assert {obj["metadata"].get("namespace", "elsewhere") for obj in other} == {"elsewhere"}
    assert other[0]["metadata"]["name"] == "elsewhere"


def rendered_image(objects: list[dict[str, Any]]) -> str:
    (deployment,) = of_kind(objects, "Deployment")
    image: str = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def test_packaged_charts_are_archives_of_helm(tmp_path: Path) -> None:
    import release

    release.write_chart("trimtab", tmp_path)
    archive = next((tmp_path / "charts").glob("*.tgz"))
    assert "name: trimtab" in run(tool("helm"), "show", "chart", str(archive))
