"""kube-scheduler's rules, which every dialect shares: filters, scores, devices, CEL."""
