"""Which files, rows and columns of a table a read or a write needs."""
