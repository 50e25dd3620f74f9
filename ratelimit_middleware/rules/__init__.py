"""The rule file: grammar, model, loading and matching."""
