"""KAI Scheduler's dialect: its rules, and what decides by them."""
