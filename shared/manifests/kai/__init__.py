"""Parsers of KAI Scheduler's kinds."""
