"""Where buckets live."""
