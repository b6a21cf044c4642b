"""Where usage, OOM kills, pods and history come from, and where checkpoints go."""
