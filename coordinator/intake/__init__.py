"""Admission of submitted objects: bounded, validated, numbered, made durable, published.

``intake`` validates a list through ``admission``; ``writer`` stores what was accepted and
acknowledges it; ``fair_queue``, ``pending_limit`` and ``body_budget`` bound how long one tenant can
make the others wait.
"""
