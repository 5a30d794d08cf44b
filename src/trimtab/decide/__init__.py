"""The thinking: (ask, fleet) -> decision, with its reasons."""
