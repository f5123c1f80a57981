"""The configuration file: where it is, what it says, and the stores that it makes."""
