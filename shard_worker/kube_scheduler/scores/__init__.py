"""kube-scheduler's scorers."""
