"""Member clusters without pod objects, for simulations of many clusters: replicas are numbers per node."""
