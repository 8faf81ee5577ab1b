"""Who may ask us, by the API server of the cluster that is followed."""
