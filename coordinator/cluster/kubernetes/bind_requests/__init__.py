"""Binding by KAI's binder: BindRequests are written, and their outcomes taken back.

``objects`` is what a request says, ``book`` those that the cluster has, ``writes`` what decides for
each pod what is written next.
"""
