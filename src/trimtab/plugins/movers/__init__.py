"""Descheduler strategies: which pods should be evicted, one strategy per file."""
