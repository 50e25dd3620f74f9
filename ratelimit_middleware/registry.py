"""LimiterRegistry: rules x clients -> checks -> verdict."""
