"""Filters for OCM Placements: which managed clusters are not eligible."""
