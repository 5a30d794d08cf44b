"""The web console: pages rendered on the server, kept current by one event stream, acting with the user's own rights."""
