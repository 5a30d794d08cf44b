"""A durable, watchable key-value store with etcd-like revisions, used by the embedded API server."""
