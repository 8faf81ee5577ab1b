"""Errors of a cluster of our own."""

from __future__ import annotations


class LocalClusterFailed(Exception):
    """A server of the cluster did not start, ended, or did not do what it was asked to."""


class UnexpectedAnswer(Exception):
    """The API server answered with another code than the one that was called for."""
