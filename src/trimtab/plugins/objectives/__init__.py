"""What the rescheduler may strive for: one file, one objective."""
