"""The processes of one installation: starting, watching and restarting them."""
