"""Pod scheduling: chooses a node for a pod within one cluster."""
