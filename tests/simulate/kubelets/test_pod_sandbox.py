"""Volumes and commands of simulated pods."""

import asyncio
from typing import Any

from simulate.fixtures import PODS, run_in_whole_cluster
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"


def pod(name: str, *command: str, **container: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "app:1", "command": list(command), **container}
    if not command:
        del main["command"]
    spec = {"restartPolicy": "Never" if command else "Always", "containers": [main]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def execute(member: SimulatedMember, name: str, *command: str) -> tuple[int, str]:
    output: list[str] = []
    found = await member.client.get(PODS, "default", name)
    return await member.kubelets.containers.run_command(found, "main", command, "", output.append), "".join(output)


def test_projected_volume_has_a_valid_token_and_the_certificate() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(PODS, pod("p", "sh", "-c", "sleep 1000"))
        await asyncio.sleep(5)
        code, token = await execute(member, "p", "cat", f"{TOKENS}/token")
        assert code == 0
        user = member.server.authenticator.authenticate(f"Bearer {token}", None)
        assert user.name == "system:serviceaccount:default:default"

    run_in_whole_cluster(scenario)


def test_command_runs_in_a_container_whose_program_is_not_known() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(PODS, pod("p"))
        await asyncio.sleep(5)
        assert await execute(member, "p", "sh", "-c", "echo x > /file; cat /file") == (0, "x\n")
        assert await execute(member, "p", "cat", "/file", f"{TOKENS}/namespace") == (0, "x\ndefault")

    run_in_whole_cluster(scenario)


def test_program_that_is_known_starts_although_its_configuration_is_not_read() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(PODS, pod("web", image="nginx"))
        await asyncio.sleep(5)
        assert [one.is_ready for one in member.pods] == [True]

    run_in_whole_cluster(scenario)


def test_known_program_waits_for_the_configuration_of_its_variables() -> None:
    async def scenario(member: SimulatedMember) -> None:
        variables = [{"configMapRef": {"name": "settings"}}]
        await member.client.create(PODS, pod("web", image="nginx", envFrom=variables))
        prepared = pod("prepared", "sleep", "1000")
        prepared["spec"]["initContainers"] = [
            {"name": "init", "image": "nginx", "command": ["true"], "envFrom": variables}
        ]
        await member.client.create(PODS, prepared)
        await asyncio.sleep(5)
        web = await member.client.get(PODS, "default", "web")
        assert web["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
        body = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"COLOUR": "red"}}
        await member.client.create(CONFIG_MAPS, body)
        await asyncio.sleep(30)
        assert [one.is_ready for one in member.pods] == [True, True]
        assert await execute(member, "web", "sh", "-c", "echo $COLOUR") == (0, "red\n")

    run_in_whole_cluster(scenario)


def test_downward_volume_has_labels_and_amounts() -> None:
    async def scenario(member: SimulatedMember) -> None:
        amounts = {"requests": {"cpu": "250m", "memory": "32Mi"}, "limits": {"cpu": "1250m", "memory": "64Mi"}}
        body = pod("p", "sleep", "1000", resources=amounts, volumeMounts=[{"name": "info", "mountPath": "/info"}])
        body["metadata"]["labels"] = {"b": "2", "a": "1"}
        items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
        for resource, divisor in (("limits.cpu", "0"), ("requests.cpu", "1m"), ("limits.memory", "1Mi")):
            source = {"containerName": "main", "resource": resource, "divisor": divisor}
            items.append({"path": resource, "resourceFieldRef": source})
        body["spec"]["volumes"] = [{"name": "info", "downwardAPI": {"items": items}}]
        await member.client.create(PODS, body)
        await asyncio.sleep(5)
        assert await execute(member, "p", "cat", "/info/labels") == (0, 'a="1"\nb="2"')
        found = [(await execute(member, "p", "cat", f"/info/{item['path']}"))[1] for item in items[1:]]
        assert found == ["2", "250", "64"]

    run_in_whole_cluster(scenario)


def test_end_of_a_container_has_its_termination_message() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(PODS, pod("file", "sh", "-c", "echo -n DONE > /dev/termination-log"))
        fallback = pod("log", "sh", "-c", "echo bad; exit 1", terminationMessagePolicy="FallbackToLogsOnError")
        await member.client.create(PODS, fallback)
        await member.client.create(PODS, pod("none", "sh", "-c", "echo bad; exit 1"))
        await asyncio.sleep(5)
        found = {}
        for name in ("file", "log", "none"):
            raw = await member.client.get(PODS, "default", name)
            found[name] = raw["status"]["containerStatuses"][0]["state"]["terminated"].get("message")
        assert found == {"file": "DONE", "log": "bad", "none": None}

    run_in_whole_cluster(scenario)


def test_files_of_a_claim_outlive_the_pods_that_mount_it() -> None:
    async def scenario(member: SimulatedMember) -> None:
        claim = {"metadata": {"name": "data", "namespace": "default"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
        await member.client.create(CLAIMS, claim)
        mounted = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        for name in ("first", "second"):
            body = pod(name, "sh", "-c", "sleep 1000", **mounted)
            body["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
            await member.client.create(PODS, body)
            await asyncio.sleep(5)
            _, found = await execute(member, name, "sh", "-c", "cat /data/f; echo kept > /data/f")
            assert found.endswith("kept\n") == (name == "second")
            await member.client.delete(PODS, "default", name, grace_seconds=0)

    run_in_whole_cluster(scenario)


def test_variables_have_addresses_and_what_the_node_can_allocate() -> None:
    async def scenario(member: SimulatedMember) -> None:
        fields = {"HOST": "status.hostIP", "HOSTS": "status.hostIPs", "POD": "status.podIP", "PODS": "status.podIPs"}
        variables = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
        limit = {"containerName": "main", "resource": "limits.cpu"}
        variables.append({"name": "LIMIT", "valueFrom": {"resourceFieldRef": limit}})
        command = ["sh", "-c", "echo $HOST $HOSTS $POD $PODS $LIMIT"]
        container = {"name": "main", "image": "busybox", "command": command, "env": variables}
        await member.client.create(PODS, {**pod("p"), "spec": {"containers": [container]}})
        await asyncio.sleep(10)
        status = (await member.client.get(PODS, "default", "p"))["status"]
        host, own = status["hostIP"], status["podIP"]
        cores = member.kubelets.machines[member.pods[0].spec.node_name].capacity["cpu"] // 1000
        log = await member.client.fetch("/api/v1/namespaces/default/pods/p/log")
        assert log.body.decode().splitlines()[0] == f"{host} {host} {own} {own} {cores}"

    run_in_whole_cluster(scenario)
