"""The leading process: the loops around the core.

``service`` starts them: the executor of instructions, the bind loop, the reconcile loop, the
lifecycle of the workers. ``python -m coordinator.service`` runs it.
"""
