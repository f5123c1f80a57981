"""Reports on a lake that change nothing: doctor, verify, diff, sizes and read-only SQL."""
