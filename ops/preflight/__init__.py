"""Whether an account can hold an environment, asked before money is spent."""
