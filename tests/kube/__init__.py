"""Objects read over HTTP, by kubectl and others."""
