"""Controllers that work inside one cluster, beside its own: in every simulated member, and wherever they are started."""
