"""Registry of the controllers that run inside one cluster, separate from those of the fleet."""

from functools import partial

from trimtab.controllers.contract import Controller, controller
from trimtab.registry import Registry

inside: Registry[Controller] = Registry("controller inside a cluster")
inside_a_cluster = partial(controller, registry=inside)
