"""Volcano's plugins, in folders by subject: jobs, nodes or queues."""
