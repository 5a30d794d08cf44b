"""Decides for Open Cluster Management: which clusters a Placement gets."""
