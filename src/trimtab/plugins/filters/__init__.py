"""Which clusters a workload may not go to."""
