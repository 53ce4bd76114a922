"""Many runs: what to train, which processes or machines train it, and the results as one table."""
