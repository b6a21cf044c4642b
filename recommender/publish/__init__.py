"""Statuses of VPAs: decisions about their contents, and writes."""
