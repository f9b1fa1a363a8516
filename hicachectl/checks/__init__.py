"""What `doctor` checks: one file a check, one visible list (`listed.CHECKS`)."""
