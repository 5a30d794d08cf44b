"""Controllers that run inside one cluster: in every simulated member, and wherever they are started."""
