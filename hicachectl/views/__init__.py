"""What a person or a script reads: pure functions from data to text."""
