"""Built-in score providers."""
