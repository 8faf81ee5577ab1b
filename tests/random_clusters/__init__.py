"""Random clusters with every plugin drawn: one session and the sharded path have to agree."""
