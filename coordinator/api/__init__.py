"""The HTTP server: Kubernetes' API over the intake and the read model.

``app`` puts the parts together, ``server`` listens, ``subresources`` are explanations and plans.
A web page would be a folder ``web`` beside these, over ``read``.
"""
