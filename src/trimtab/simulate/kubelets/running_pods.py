"""The pods that the kubelets of one cluster run: a lifecycle and a sandbox each."""

from collections.abc import Iterator

from trimtab.api.value import Key, Raw
from trimtab.simulate.kubelets.pod_lifecycle import PodLifecycle
from trimtab.simulate.kubelets.pod_sandbox import PodSandbox


def key_of_pod(pod: Raw) -> Key:
    return Key("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])


class RunningPods:
    """Lifecycles and sandboxes by the key of their pod."""

    def __init__(self) -> None:
        self.lifecycles: dict[Key, PodLifecycle] = {}
        self.sandboxes: dict[Key, PodSandbox] = {}

    def on_node(self, node: str) -> Iterator[tuple[Key, PodLifecycle]]:
        return ((key, lifecycle) for key, lifecycle in self.lifecycles.items() if lifecycle.node == node)

    def find_lifecycle(self, pod: Raw) -> PodLifecycle | None:
        """The lifecycle of this pod; None if no kubelet runs it."""
        found = self.lifecycles.get(key_of_pod(pod))
        return found if found is not None and found.uid == pod["metadata"]["uid"] else None

    def sandbox_of(self, pod: Raw) -> PodSandbox:
        return self.sandboxes[key_of_pod(pod)]

    def remove(self, key: Key) -> PodLifecycle | None:
        """Forget the pod; returns its lifecycle if it had one."""
        self.sandboxes.pop(key, None)
        return self.lifecycles.pop(key, None)
