"""The search for victims: who could go for a job, tried on the session itself and taken back."""
