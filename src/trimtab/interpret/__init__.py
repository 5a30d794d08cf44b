"""Interpretation of workload kinds by native rules and Lua scripts, pruning, and override policies."""
