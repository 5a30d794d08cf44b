"""The pods dialect: where a pod runs among the nodes of one cluster."""
