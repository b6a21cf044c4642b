"""What limits evictions: budgets, requirements, the circuit breaker, and dry runs."""
