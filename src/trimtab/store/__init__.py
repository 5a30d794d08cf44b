"""The durable, watchable log of keys and bytes on which the embedded API server stands."""
