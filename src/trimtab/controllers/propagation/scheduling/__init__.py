"""The scheduler: bindings in, placements out; `schedule.py` is the controller, the others are its steps."""
