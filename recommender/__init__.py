"""The recommender: collects usage in decaying histograms and recommends requests from them."""
