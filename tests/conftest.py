"""Lets every test import the shared helpers of this folder by their name."""
