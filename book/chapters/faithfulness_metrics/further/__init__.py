"""Further experiments: prompts with a needle, ROAR, transfer of learned weights, hidden keys."""
