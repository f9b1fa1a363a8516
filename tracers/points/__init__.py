"""Rows only: what is hooked, one file a layer."""
