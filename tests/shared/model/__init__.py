"""Tests of the objects as values."""
