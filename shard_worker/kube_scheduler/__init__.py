"""kube-scheduler's rules, shared by all dialects: filters, scores, devices, CEL."""
