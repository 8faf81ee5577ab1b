"""The tree of queues, the place of a job in its queue, and which queues have what others lack."""
