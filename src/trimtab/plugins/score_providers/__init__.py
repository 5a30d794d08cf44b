"""Scores that Trimtab itself can publish."""
