"""The limits of evictions: budgets, requirements, the circuit breaker, and dry runs."""
