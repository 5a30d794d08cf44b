"""Which node suits a pod best: one file, one preference."""
