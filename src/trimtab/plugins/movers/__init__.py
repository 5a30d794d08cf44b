"""Which pods would be better off elsewhere: one file, one strategy."""
