"""The probe of a live store: steps as rows, one interpreter, and a report as plain data."""
