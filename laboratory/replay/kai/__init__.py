"""Scenarios of KAI Scheduler: one session, or round after round with what came of each fed back."""
