"""Registry of the controllers that run inside one cluster, separate from those of the fleet."""

from functools import partial

from trimtab.controllers.contract import Controller, controller
from trimtab.registry import Registry

member_controllers: Registry[Controller] = Registry("controller inside a cluster")
member_controller = partial(controller, registry=member_controllers)
