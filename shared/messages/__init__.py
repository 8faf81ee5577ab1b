"""Turns, statements, outcomes, turn contexts; and their encoding."""
