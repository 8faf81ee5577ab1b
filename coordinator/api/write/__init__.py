"""Writing objects: one by one as Kubernetes does, in bulk, or as a dry run."""
