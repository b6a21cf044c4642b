"""The resources that a VPA gives one pod; admission and updater use the same rules."""
