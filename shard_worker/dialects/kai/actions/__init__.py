"""KAI's actions, each a module with ``execute``."""
