"""Rules of a real API server, with its sentences and in its order."""
