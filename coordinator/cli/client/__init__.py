"""The commands' side of the API: kubeconfig, HTTP client, kinds, JSONPath."""
