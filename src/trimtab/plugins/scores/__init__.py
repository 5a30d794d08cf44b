"""Scores: which clusters suit a workload better."""
