"""Kueue's performance test: queues in cohorts that borrow, priorities and preemption."""
