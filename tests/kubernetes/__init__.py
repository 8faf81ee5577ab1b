"""A real cluster for the tests: API server and etcd, who may ask it, and kubelets without pods."""
