"""Controllers of workload kinds: today Volcano's Job."""
