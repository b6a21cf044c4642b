"""Which types the fields of built-in kinds have, as far as a wrong one would do harm."""
