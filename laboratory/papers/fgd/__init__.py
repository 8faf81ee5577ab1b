"""FGD (Weng and others, ATC 2023): six policies for shares of GPUs, on the cluster of openb."""
