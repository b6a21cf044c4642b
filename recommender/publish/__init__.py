"""Statuses of VPAs: what they should say, and how they are written."""
