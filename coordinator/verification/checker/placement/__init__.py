"""What was bound, against what it asked of nodes, neighbours, volumes and devices."""
