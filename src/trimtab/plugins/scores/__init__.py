"""Which clusters suit a workload better."""
