"""Node filters: which nodes a pod can run on, one rule per file."""
