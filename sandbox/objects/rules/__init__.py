"""What a real API server refuses, kind by kind, in its words and its order."""
