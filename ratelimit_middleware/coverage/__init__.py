"""Which rules hold for which routes of an app, before a request has come."""

from ratelimit_middleware.coverage.report import Coverage, RouteCoverage, coverage, warn_of_idle_rules

__all__ = ["Coverage", "RouteCoverage", "coverage", "warn_of_idle_rules"]
