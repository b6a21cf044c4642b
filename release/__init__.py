"""The checks of a release: ``make release-check``."""
