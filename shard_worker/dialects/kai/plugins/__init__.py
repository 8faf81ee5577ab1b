"""KAI's plugins over the session: which rule stands at which point."""
