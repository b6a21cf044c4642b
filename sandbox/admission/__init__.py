"""Admission: plugins, quotas, webhooks and evictions."""
