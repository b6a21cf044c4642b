"""What stands between a valid request and the store: plugins, quotas, webhooks, evictions."""
