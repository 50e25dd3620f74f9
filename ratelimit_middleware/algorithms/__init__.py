"""The limiters as pure arithmetic."""
