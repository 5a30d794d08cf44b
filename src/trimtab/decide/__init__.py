"""Pure decision functions: (request, fleet) -> decision with its reasons."""
