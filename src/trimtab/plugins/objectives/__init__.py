"""Objectives of the rescheduler, one per file."""
