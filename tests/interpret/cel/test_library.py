import pytest

from interpret.cel.cel_helpers import holds


@pytest.mark.parametrize(
    "expression",
    [
        'quantity(managedCluster.status.allocatable.cpu).isGreaterThan(quantity("3"))',
        'quantity("1000m") == quantity("1")',
        'quantity("1.5").add(quantity("500m")).asInteger() == 2',
        'semver(managedCluster.status.version.kubernetes.substring(1)).isGreaterThan(semver("1.30.0"))',
        'semver("1.2.3-rc.1").isLessThan(semver("1.2.3"))',
        '!isSemver("v1.2.3")',
        'ip("10.1.2.3").family() == 4',
        'cidr("10.0.0.0/8").containsIP("10.1.2.3")',
        'cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16")',
        'url("https://a.example:6443/x?y=1").getPort() == "6443"',
        "[3, 1, 2].max() == 3 && [1, 2].sum() == 3 && [1, 2].isSorted()",
        '"v1.30.2-gke.5".find("[0-9]+[.][0-9]+") == "1.30" && "abc".find("[0-9]+") == ""',
        '["a", "b", "b"].indexOf("b") == 1 && ["a", "b", "b"].lastIndexOf("b") == 2 && [1].indexOf("b") == -1',
        "[1, 2].indexOf(2) == 1 && [[1], [2]].indexOf([2]) == 1 && [true].indexOf(1) == -1 && [null].indexOf(null) == 0",
        'string(ip("10.0.0.1")) == "10.0.0.1" && string(cidr("10.0.0.0/8")) == "10.0.0.0/8" && string(7) == "7"',
        'ip.isCanonical("2001:db8::1") && !ip.isCanonical("2001:DB8::1")',
        'ip("224.0.0.1").isLinkLocalMulticast() && !ip("224.0.1.1").isLinkLocalMulticast()',
        'url("https://a.example/x y?q=a%20b&q=c").getQuery()["q"] == ["a b", "c"]',
        'url("https://a.example/x y").getEscapedPath() == "/x%20y" && !isURL("https://a.example/%zz")',
    ],
)
def test_kubernetes_functions_have_the_expected_results(expression: str) -> None:
    assert holds(expression)
