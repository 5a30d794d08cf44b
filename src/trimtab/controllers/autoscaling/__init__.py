"""Controllers that scale workloads: by metrics, by schedule, and along with autoscalers in members."""
