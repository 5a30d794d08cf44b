"""Who may do what in members."""
