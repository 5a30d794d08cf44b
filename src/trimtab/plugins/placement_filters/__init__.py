"""Which managed clusters a Placement may be answered with."""
