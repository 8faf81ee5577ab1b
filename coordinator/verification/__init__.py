"""How we know that it is right: checker, model, seeded runs, faults, replays."""
