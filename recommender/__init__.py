"""Usage becomes decaying histograms, and these become recommendations and checkpoints."""
