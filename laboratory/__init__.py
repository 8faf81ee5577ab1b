"""Runs that judge the service: demo, bench, chaos, replay, scaling, seeded runs, the checker."""
