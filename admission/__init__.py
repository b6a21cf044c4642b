"""The admission webhook: sets the resources of new pods and validates VPA objects."""
