"""From a VPA's recommendation to numbers for one pod; used by admission and updater alike."""
