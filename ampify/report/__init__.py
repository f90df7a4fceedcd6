"""What a run prints: one writer a file, each a pure function of the report."""
