"""From a VPA's pods to the plan of what is done to them, as values without effects."""
