"""Slots, quantities, named things, and amounts in words."""
