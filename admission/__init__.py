"""The webhook: right-sizes pods as they are created and validates VPA objects."""
