"""Node scores: which node suits a pod best, one preference per file."""
