"""Asking a running SGLang server what it is."""
