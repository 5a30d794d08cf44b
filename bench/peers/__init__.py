"""Programs of ours around the peers' published Go modules, measured beside us in one run."""
