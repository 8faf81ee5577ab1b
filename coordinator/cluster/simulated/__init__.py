"""The simulated cluster: kubelets, the process that runs them, and its client."""
