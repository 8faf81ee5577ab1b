"""Writing objects: one by one as in Kubernetes, in bulk, or as a dry run."""
