"""Results as tables, JSON, YAML, CSV and names."""
