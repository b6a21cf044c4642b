"""Plans of the actions on a VPA's pods, as values without effects."""
