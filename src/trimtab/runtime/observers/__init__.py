"""Observers of the cache and of reconciles: metrics, traces, notifications."""
