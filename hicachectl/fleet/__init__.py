"""Questions over many hosts: one SQL file each, answered by a column store; and verdicts, worked out a few thousand requests at a time."""
