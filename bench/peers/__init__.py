"""Go programs around the peers' published modules, measured in the same run as ours."""
