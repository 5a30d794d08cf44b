"""Controllers of FederatedResourceQuotas."""
