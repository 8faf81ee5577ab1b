"""KAI in the service, by turns instead of sessions over everything: columns, gangs, one turn."""
