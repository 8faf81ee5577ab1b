"""Why a job is pending, from the core alone."""
