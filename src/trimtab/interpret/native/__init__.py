"""The built-in rules, one module per operation."""
