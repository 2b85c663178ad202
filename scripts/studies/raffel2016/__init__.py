"""Raffel & Ellis (2016): feed-forward attention on long-term memory problems."""
