"""Quadrant in the place of KAI's scheduler: KAI's binder binds, by BindRequests."""
