"""Checked reading of an object's fields."""
