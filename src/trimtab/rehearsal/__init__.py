"""Finds what the controllers would do, by running them on a copy of the host with members that are only read."""
