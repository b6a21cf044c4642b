"""The updater: resizes or evicts pods whose requests differ from their recommendation."""
