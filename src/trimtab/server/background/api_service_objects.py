"""The APIService of every group version that this server serves itself."""

from collections.abc import Iterator

from trimtab.api.value import Raw
from trimtab.server.resources import ResourceCatalogue, version_rank

_LABEL = "kube-aggregator.kubernetes.io/automanaged"
_CORE_PRIORITY, _BUILT_IN_PRIORITY, _CUSTOM_PRIORITY = 18_000, 17_000, 1_000
GROUP = "apiregistration.k8s.io"


def local_api_services(catalogue: ResourceCatalogue) -> Iterator[Raw]:
    versions = {(served.group, served.version): served.kind.custom for served in catalogue}
    for (group, version), custom in sorted(versions.items()):
        named_priority = _CUSTOM_PRIORITY if custom else _BUILT_IN_PRIORITY
        yield {
            "apiVersion": f"{GROUP}/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{group}", "labels": {_LABEL: "true" if custom else "onstart"}},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": named_priority if group else _CORE_PRIORITY,
                "versionPriority": 15 - min(14, 5 * version_rank(version)[0]),
            },
        }
