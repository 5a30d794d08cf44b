"""Existing client libraries work unmodified: list, watch, patch, apply and delete."""

import asyncio
import os
import subprocess
import sys
import textwrap
import uuid

import pytest

CRD_GROUP, CRD_VERSION, CRD_PLURAL = "policy.karmada.io", "v1alpha1", "propagationpolicies"


def config_map(name: str, **data: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def policy(name: str) -> dict:
    return {
        "apiVersion": f"{CRD_GROUP}/{CRD_VERSION}",
        "kind": "PropagationPolicy",
        "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        },
    }


@pytest.fixture
def name() -> str:
    return f"c{uuid.uuid4().hex[:8]}"


def test_official_client_works(api_server, name: str) -> None:
    from kubernetes import client, config, dynamic, watch

    api = config.new_client_from_config(str(api_server.kubeconfig))
    core, custom = client.CoreV1Api(api), client.CustomObjectsApi(api)
    core.create_namespaced_config_map("default", config_map(name, k="1"))
    listing = core.list_namespaced_config_map("default")
    assert name in [item.metadata.name for item in listing.items]
    core.patch_namespaced_config_map(name, "default", {"data": {"k": "2"}})
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, "default", field_selector=f"metadata.name={name}", timeout_seconds=1
    )
    seen = [(event["type"], event["object"].data["k"]) for event in stream]
    assert seen == [("ADDED", "2")]
    custom.create_namespaced_custom_object(CRD_GROUP, CRD_VERSION, "default", CRD_PLURAL, policy(name))
    body = {"spec": {"priority": 7}}
    patched = custom.patch_namespaced_custom_object(CRD_GROUP, CRD_VERSION, "default", CRD_PLURAL, name, body)
    assert patched["spec"]["priority"] == 7
    policies = dynamic.DynamicClient(api).resources.get(
        api_version=f"{CRD_GROUP}/{CRD_VERSION}", kind="PropagationPolicy"
    )
    applied = policies.server_side_apply(
        body={**policy(name), "metadata": {"name": name, "namespace": "default"}},
        namespace="default",
        field_manager="test",
        force_conflicts=True,
    )
    assert applied.metadata.name == name
    custom.delete_namespaced_custom_object(CRD_GROUP, CRD_VERSION, "default", CRD_PLURAL, name)
    core.delete_namespaced_config_map(name, "default")
    with pytest.raises(client.ApiException) as missing:
        core.read_namespaced_config_map(name, "default")
    assert missing.value.status == 404


def test_asynchronous_client_works(api_server, name: str) -> None:
    async def story() -> None:
        from kubernetes_asyncio import client, config, watch

        await config.load_kube_config(str(api_server.kubeconfig))
        async with client.ApiClient() as api:
            core = client.CoreV1Api(api)
            await core.create_namespaced_config_map("default", config_map(name, k="1"))
            assert name in [item.metadata.name for item in (await core.list_namespaced_config_map("default")).items]
            await core.patch_namespaced_config_map(
                name, "default", {"data": {"k": "2"}}, _content_type="application/merge-patch+json"
            )
            stream = watch.Watch().stream(
                core.list_namespaced_config_map, "default", field_selector=f"metadata.name={name}", timeout_seconds=1
            )
            seen = [(event["type"], event["object"].data["k"]) async for event in stream]
            assert seen == [("ADDED", "2")]
            await core.delete_namespaced_config_map(name, "default")
            with pytest.raises(client.ApiException):
                await core.read_namespaced_config_map(name, "default")

    asyncio.run(story())


def test_lightkube_works(api_server, name: str) -> None:
    from lightkube import ApiError, Client, KubeConfig
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap

    client = Client(config=KubeConfig.from_file(str(api_server.kubeconfig)), field_manager="lightkube-test")
    client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"k": "1"}))
    assert name in [item.metadata.name for item in client.list(ConfigMap, namespace="default")]
    client.patch(ConfigMap, name, {"data": {"k": "2"}}, namespace="default")
    applied = client.apply(
        ConfigMap(
            apiVersion="v1",
            kind="ConfigMap",
            metadata=ObjectMeta(name=name, namespace="default"),
            data={"k": "3"},
        ),
        force=True,
    )
    assert applied.data["k"] == "3"
    for kind, obj in client.watch(ConfigMap, namespace="default", fields={"metadata.name": name}):
        assert (kind, obj.data["k"]) == ("ADDED", "3")
        break
    client.delete(ConfigMap, name, namespace="default")
    with pytest.raises(ApiError):
        client.get(ConfigMap, name, namespace="default")


def test_kr8s_works(api_server, name: str) -> None:
    async def story() -> None:
        from kr8s.asyncio import api as connect
        from kr8s.asyncio.objects import ConfigMap

        api = await connect(kubeconfig=str(api_server.kubeconfig))
        made = await ConfigMap(config_map(name, k="1"), namespace="default", api=api)
        await made.create()
        assert name in [item.name async for item in api.get("configmaps", namespace="default")]
        await made.patch({"data": {"k": "2"}})
        async for kind, obj in api.watch("configmaps", namespace="default", field_selector=f"metadata.name={name}"):
            assert (kind, obj.raw["data"]["k"]) == ("ADDED", "2")
            break
        await made.delete()
        assert not await made.exists()

    asyncio.run(story())


OPERATOR = """
    import kopf

    @kopf.on.create("policy.karmada.io", "v1alpha1", "propagationpolicies", labels={"kopf": "%(name)s"})
    def made(patch, **_):
        patch.metadata.labels["seen"] = "yes"

    @kopf.on.delete("policy.karmada.io", "v1alpha1", "propagationpolicies", labels={"kopf": "%(name)s"})
    def gone(**_):
        pass
"""


def test_kopf_works(api_server, name: str, tmp_path) -> None:
    from kubernetes import client, config

    script = tmp_path / "operator.py"
    script.write_text(textwrap.dedent(OPERATOR) % {"name": name})
    environment = {**os.environ, "KUBECONFIG": str(api_server.kubeconfig)}
    command = [sys.executable, "-m", "kopf", "run", "--namespace=default", "--standalone", str(script)]
    operator = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        custom = client.CustomObjectsApi(config.new_client_from_config(str(api_server.kubeconfig)))
        where = (CRD_GROUP, CRD_VERSION, "default", CRD_PLURAL)
        body = policy(name)
        body["metadata"]["labels"] = {"kopf": name}
        custom.create_namespaced_custom_object(*where, body)
        assert _eventually(lambda: custom.get_namespaced_custom_object(*where, name)["metadata"]["labels"].get("seen"))
        assert custom.get_namespaced_custom_object(*where, name)["metadata"]["finalizers"]
        custom.delete_namespaced_custom_object(*where, name)
        names = lambda: [item["metadata"]["name"] for item in custom.list_namespaced_custom_object(*where)["items"]]  # noqa: E731
        assert _eventually(lambda: name not in names())
    finally:
        operator.terminate()
        log, _ = operator.communicate(timeout=30)
    assert "Traceback" not in log, log


def _eventually(holds) -> bool:
    import time

    for _ in range(200):
        if holds():
            return True
        time.sleep(0.1)
    return False
