"""Run a workload on a simulated cluster and summarise it."""
