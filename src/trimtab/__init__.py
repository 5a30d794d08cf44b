"""Trimtab keeps workloads in the right place across many Kubernetes clusters, and inside each of them."""

__version__ = "0.1.0"
