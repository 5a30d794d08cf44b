"""Controllers of services that span clusters."""
