"""The HTTP server: Kubernetes' API over intake and the read model.

``app`` assembles the application, ``server`` listens, ``subresources`` are explanations and plans.
A web page would be a folder ``web`` beside these, on top of ``read``.
"""
