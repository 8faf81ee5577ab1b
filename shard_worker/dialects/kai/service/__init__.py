"""What a service has of KAI in place of a session over everything: columns, gangs, one turn."""
