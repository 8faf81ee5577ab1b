"""What every answer is made with: responses, failures, health, media types, traces."""
