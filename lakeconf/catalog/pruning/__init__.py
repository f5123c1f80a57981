"""Which files a predicate can match, by their statistics and partition values."""
