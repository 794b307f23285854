"""Models: one page each, from config to module."""
