"""Which nodes a pod can run on: one file, one rule."""
