import asyncio
import random
from pathlib import Path

from simulate.fixtures import DEPLOYMENTS, deployment, status
from trimtab.api.profile import TRIMTAB
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import WallClock
from trimtab.registry import discover
from trimtab.runtime.cache import Cache
from trimtab.runtime.manager import ControllerManager
from trimtab.runtime.view import ControlPlaneState
from trimtab.server.daemon import Daemon
from trimtab.simulate import workloads as workload_modules
from trimtab.simulate.fleet import PACES, MemberPlan
from trimtab.simulate.kubelets.kubelets import Kubelets, KubeletSettings
from trimtab.simulate.member import NoMemberClients
from trimtab.simulate.scheduling.pod_scheduler import PodScheduler
from trimtab.simulate.workloads.registry import workloads


def test_every_component_works_over_http_with_its_own_cache(tmp_path: Path) -> None:
    async def run() -> None:
        discover(workload_modules)
        daemon = Daemon(tmp_path, "127.0.0.1", 0)
        await daemon.start()
        client, clock = KubeClient(load(daemon.kubeconfig)), WallClock()
        caches = [Cache(client) for _ in range(3)]
        state = ControlPlaneState(cache=caches[0], clock=clock, profile=TRIMTAB, members=NoMemberClients())
        manager = ControllerManager(state, workloads.values())
        plan = MemberPlan(name="far", nodes=2)
        shape = KubeletSettings("far", PACES["instant"])
        kubelets = Kubelets(caches[1], plan.node_plans(), shape, clock=clock, rng=random.Random(0))
        binder = PodScheduler(caches[2], clock=clock, profile=TRIMTAB)
        await kubelets.start()
        await manager.start()
        await binder.start()
        await client.create(DEPLOYMENTS, deployment(replicas=4))
        async with asyncio.timeout(30):
            while (await status(client, DEPLOYMENTS, "web")).get("readyReplicas") != 4:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await binder.stop()
        await kubelets.stop()
        await manager.stop()
        for cache in caches[1:]:
            await cache.close()
        await client.close()
        await daemon.stop()

    asyncio.run(run())
