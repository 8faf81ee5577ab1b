"""KAI's rules over plain records: no session, no world. The coordinator asks the same ones."""
