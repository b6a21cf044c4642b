"""The state of in-place resizes, and the patches that start, replace or withdraw them."""
