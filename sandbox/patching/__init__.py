"""The patches of PATCH requests: JSON patch, merge patch, strategic merge patch."""
