"""Recordings in other formats, one file a format, and to where they are sent."""
