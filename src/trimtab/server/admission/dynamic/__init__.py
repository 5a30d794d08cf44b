"""Dynamic admission control: what users configure with webhooks and ValidatingAdmissionPolicies."""
