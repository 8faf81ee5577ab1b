"""State of the watched cluster, without I/O: pods and other objects, and their consequences."""
