"""Filters: which clusters a workload must not use."""
