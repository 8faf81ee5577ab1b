"""Objects in: bounded, judged, numbered, made durable, told on.

``intake`` judges a list through ``admission``; ``writer`` stores what was accepted and acknowledges
it; ``fair_queue``, ``pending_limit`` and ``body_budget`` bound what one tenant can make others
wait.
"""
