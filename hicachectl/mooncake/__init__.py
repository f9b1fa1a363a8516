"""Talking to a live Mooncake store: its client, its master, its configuration, its numbers."""
