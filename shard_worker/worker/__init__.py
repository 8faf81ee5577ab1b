"""The worker: a pure state machine (plan, commit, retry), and the Ray actor around it."""
