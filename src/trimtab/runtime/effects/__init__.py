"""Carries out what controllers return: patches, writes on the host and in members, events, readings of members."""
