"""Scripts that run as processes of their own, by path, so that they start fast and import nothing of ours."""
