"""What objects are: kinds, shapes, defaults, schemas, rules; and the store that keeps them."""
