"""A real API server and etcd on this machine, with hollow kubelets: where chaos runs, benchmarks
and tests have a Kubernetes cluster of their own."""
