"""Jobs of a control plane end after their time to live."""

import asyncio
from typing import Any

from trimtab.clock import LoopClock, run_virtually
from trimtab.runtime.cache import Cache
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.simulate.components.finished_jobs import JOBS, FinishedJobs
from trimtab.store.store import Store


def job(name: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}


async def finish(client: LocalClient, name: str, time: str) -> None:
    times = {"lastProbeTime": time, "lastTransitionTime": time}
    conditions = [{"type": one, "status": "True", **times} for one in ("SuccessCriteriaMet", "Complete")]
    status = {"conditions": conditions, "startTime": time, "completionTime": time}
    await client.patch(JOBS, "default", name, {"status": status}, subresource="status")


def test_finished_job_is_deleted_after_its_time_and_others_stay() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        server = ApiServer(Store(), ApiServerSettings(clock=clock))
        await server.start()
        client = LocalClient(server)
        cache = Cache(client)
        jobs = FinishedJobs(cache, client, clock.now)
        await jobs.start()
        await client.create(JOBS, job("kept"))
        await client.create(JOBS, job("running", ttlSecondsAfterFinished=0))
        await client.create(JOBS, job("done", ttlSecondsAfterFinished=30))

        async def names() -> list[str]:
            return [one["metadata"]["name"] for one in (await client.list(JOBS, "default")).items]

        now = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        for name in ("kept", "done"):
            await finish(client, name, now)
        await asyncio.sleep(25)
        assert await names() == ["done", "kept", "running"]
        await client.patch(JOBS, "default", "done", {"metadata": {"labels": {"seen": "yes"}}})
        await asyncio.sleep(10)
        assert await names() == ["kept", "running"]
        jobs.stop()
        await cache.close()
        await server.stop()

    run_virtually(scenario())
