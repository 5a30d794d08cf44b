"""What we know about workload kinds: native rules, scripts of users, and the last changes before a cluster gets its copy."""
