"""Which running pods are worth moving, and which may be: one round of the rescheduler, as pure thought."""
